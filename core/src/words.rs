//! Words: jieba's segmentation of runs of Han by its dictionary and hidden Markov model, and runs of letters,
//! marks and digits elsewhere. Rare Han characters are words by themselves, as in jieba.

use crate::dictionary::{Dictionary, END_HAN, FIRST_HAN, LONGEST};
use crate::normal::{Normal, PROPERTIES, WORD};

const AT_ONCE: usize = 1 << 12; // characters looked up at once: what is known of them stays in the cache

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Break,
    Word,
    Alone,
    Han,
}

/// True for characters that jieba's dictionary and model may know.
#[inline(always)]
fn is_han(point: u32) -> bool {
    (FIRST_HAN..END_HAN).contains(&point)
}

fn kind(point: u32) -> Kind {
    match point {
        _ if is_han(point) => Kind::Han,
        0x3400..0x4DC0 | END_HAN..0xA000 => Kind::Alone,
        0x200C | 0x200D => Kind::Word, // joiners that the normal form keeps
        _ if PROPERTIES.get(point) & WORD != 0 => Kind::Word,
        _ => Kind::Break,
    }
}

/// Words of the dictionary that begin at a character. ranks: by length; lengths: how many lengths were followed.
#[derive(Clone, Copy, Default)]
struct Beginning {
    ranks: [u16; LONGEST],
    lengths: u8,
}

/// The best way from a character to the end of its run: its log probability, and where it goes next.
#[derive(Clone, Copy, Default)]
struct Way {
    cost: f64,
    next: u32,
}

#[derive(Default)]
pub struct Cutter {
    codes: Vec<u16>,
    beginnings: Vec<Beginning>,
    under_way: Vec<(u32, u32, u32)>, // place, slot and base of beginnings that may go on
    ways: Vec<Way>,
    came_from: Vec<[u8; 4]>, // by state the most probable one before it
    pub tokens: Vec<(u32, u32)>,
}

impl Cutter {
    /// Finds the tokens of a text: begin and end of each among its characters.
    pub fn cut(&mut self, text: &Normal, dictionary: &Dictionary) {
        let points = &text.points[..];
        self.tokens.clear();
        if points.iter().any(|&point| is_han(point)) {
            self.find_ways(points, dictionary);
        }
        let mut at = 0;
        while at < points.len() {
            let of_run = kind(points[at]);
            let begin = at;
            at += 1;
            if matches!(of_run, Kind::Word | Kind::Han) {
                at += points[at..].iter().take_while(|&&point| kind(point) == of_run).count();
            }
            match of_run {
                Kind::Han => self.segment(points, begin, at, dictionary),
                Kind::Word | Kind::Alone => self.tokens.push((begin as u32, at as u32)),
                Kind::Break => {}
            }
        }
    }

    /// jieba's words of a run of Han: the most probable sequence of words of its dictionary, in which runs of
    /// single characters are cut by its hidden Markov model.
    fn segment(&mut self, points: &[u32], begin: usize, end: usize, dictionary: &Dictionary) {
        let mut singles = begin;
        let mut at = begin;
        while at < end {
            let next = self.ways[at].next as usize;
            if next > at + 1 {
                self.join(points, singles, at, dictionary);
                self.tokens.push((at as u32, next as u32));
                singles = next;
            }
            at = next;
        }
        self.join(points, singles, end, dictionary);
    }

    /// From the end of the text on. What is not Han ends a run.
    fn find_ways(&mut self, points: &[u32], dictionary: &Dictionary) {
        self.codes.clear();
        self.codes.extend(points.iter().map(|&point| if is_han(point) { dictionary.code(point) } else { 0 }));
        self.codes.resize(points.len() + LONGEST, 0);
        self.ways.clear();
        self.ways.resize(points.len() + 1, Way::default());
        let mut end = points.len();
        while end > 0 {
            let begin = end.saturating_sub(AT_ONCE);
            self.look_up(begin, end, dictionary);
            for at in (begin..end).rev() {
                self.ways[at] = match is_han(points[at]) {
                    true => self.best_way(at, &self.beginnings[at - begin], dictionary),
                    false => Way::default(),
                };
            }
            end = begin;
        }
    }

    #[inline(always)]
    fn best_way(&self, at: usize, found: &Beginning, dictionary: &Dictionary) -> Way {
        let mut best = Way { cost: f64::NEG_INFINITY, next: at as u32 + 1 };
        for (length, &rank) in found.ranks[..found.lengths as usize].iter().enumerate() {
            let next = at + length + 1;
            let cost = dictionary.cost(rank) + self.ways[next].cost;
            if cost >= best.cost {
                best = Way { cost, next: next as u32 };
            }
        }
        if best.cost == f64::NEG_INFINITY {
            best = Way { cost: dictionary.unknown() + self.ways[at + 1].cost, next: at as u32 + 1 };
        }
        best
    }

    /// Finds the words of the dictionary at every character, one more character at a time, so that many reads of
    /// the trie are under way at once.
    fn look_up(&mut self, begin: usize, end: usize, dictionary: &Dictionary) {
        self.beginnings.resize(AT_ONCE, Beginning::default());
        self.under_way.clear();
        for (place, &code) in self.codes[begin..end].iter().enumerate() {
            let node = dictionary.node(code as u32);
            let is_there = node.parent() == 0 && code != 0;
            self.beginnings[place].ranks[0] = node.rank();
            self.beginnings[place].lengths = is_there as u8;
            if is_there {
                self.under_way.push((place as u32, code as u32, node.base()));
            }
        }
        for length in 1..LONGEST {
            let mut left = 0;
            for number in 0..self.under_way.len() {
                let (place, slot, base) = self.under_way[number];
                let child = base + self.codes[begin + place as usize + length] as u32;
                let node = dictionary.node(child);
                let is_there = node.parent() == slot;
                let found = &mut self.beginnings[place as usize];
                found.ranks[length] = node.rank();
                found.lengths += is_there as u8;
                self.under_way[left] = (place, child, node.base());
                left += is_there as usize;
            }
            self.under_way.truncate(left);
            if left == 0 {
                break;
            }
        }
    }

    /// The words of a run of single characters: by the model, unless it is a word of the dictionary.
    fn join(&mut self, points: &[u32], begin: usize, end: usize, dictionary: &Dictionary) {
        let places = |from: usize, to: usize| (from as u32, to as u32);
        if end - begin < 2 || dictionary.has(&self.codes[begin..end]) {
            self.tokens.extend((begin..end).map(|at| places(at, at + 1)));
            return;
        }
        // States are known from the end on, so words are found last first, and turned round afterwards.
        let mut state = self.model(&points[begin..end], dictionary);
        let first = self.tokens.len();
        let mut behind = end;
        for at in (begin + 1..end).rev() {
            state = self.came_from[at - begin][state as usize];
            if state == E || state == S {
                self.tokens.push(places(at, behind));
                behind = at;
            }
        }
        self.tokens.push(places(begin, behind));
        self.tokens[first..].reverse();
    }

    /// The last of the most probable states (Viterbi); `came_from` gets those before it. Of equal ones jieba
    /// takes the later letter of B, E, M, S.
    fn model(&mut self, run: &[u32], dictionary: &Dictionary) -> u8 {
        let changes = &dictionary.transitions;
        let later = |one: (f64, u8), other: (f64, u8)| if other.0 >= one.0 { other } else { one };
        self.came_from.resize(self.came_from.len().max(run.len()), [0; 4]);
        let emitted = dictionary.emission(run[0]);
        let [mut b, mut e, mut m, mut s]: [f64; 4] =
            std::array::from_fn(|state| dictionary.starts[state] + emitted[state]);
        for (at, &point) in run.iter().enumerate().skip(1) {
            let emitted = dictionary.emission(point);
            let by = |cost: f64, from: u8, to: usize| (cost + changes[from as usize][to] + emitted[to], from);
            let to_b = later(by(e, E, 0), by(s, S, 0));
            let to_e = later(by(b, B, 1), by(m, M, 1));
            let to_m = later(by(b, B, 2), by(m, M, 2));
            let to_s = later(by(e, E, 3), by(s, S, 3));
            self.came_from[at] = [to_b.1, to_e.1, to_m.1, to_s.1];
            (b, e, m, s) = (to_b.0, to_e.0, to_m.0, to_s.0);
        }
        if s >= e {
            S
        } else {
            E
        }
    }
}

// States of jieba's model: a word begins, ends, goes on, or is one character.
const B: u8 = 0;
const E: u8 = 1;
const M: u8 = 2;
const S: u8 = 3;
