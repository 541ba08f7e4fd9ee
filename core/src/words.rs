//! Words: jieba's segmentation of runs of Han by its dictionary and hidden Markov model, overlapping pairs of
//! characters of Thai, Lao, Khmer and Burmese runs, which no spaces part, and runs of letters, marks and digits
//! elsewhere. Rare Han characters are words by themselves, as in jieba.

use crate::dictionary::{Dictionary, END_HAN, FIRST_HAN, LONGEST};
use crate::normal::{Normal, PROPERTIES, WORD};

const AT_ONCE: usize = 1 << 10; // characters looked up at once: what is known of them stays in the cache
const AHEAD: usize = 4; // characters of words that are looked up at once; few words are longer

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Break,
    Word,
    Alone,
    Han,
    Unspaced,
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
        _ if is_joiner(point) => Kind::Word,
        _ if PROPERTIES.get(point) & WORD == 0 => Kind::Break,
        // Blocks, because marks that other scripts use, too, count as letters of these in PROPERTIES.
        0x0E00..0x0F00 | 0x1000..0x10A0 | 0x1780..0x1800 => Kind::Unspaced, // Thai and Lao, Burmese, Khmer
        0xA9E0..0xAA00 | 0xAA60..0xAA80 | 0x116D0..0x11700 => Kind::Unspaced, // Burmese, extended
        _ => Kind::Word,
    }
}

/// True for joiners, which the normal form keeps between letters: they belong to the run that they are in.
fn is_joiner(point: u32) -> bool {
    matches!(point, 0x200C | 0x200D)
}

/// Words of the dictionary that begin at a character.
#[derive(Clone, Copy, Default)]
struct Beginning {
    ranks: [u16; AHEAD], // by length
    next: (u32, u32),    // a node and its child, if there are longer ones
}

/// A step from a node of the trie to its child, for the words that begin at a place.
#[derive(Clone, Copy)]
struct Step {
    place: u32,
    parent: u32,
    slot: u32,
}

#[derive(Default)]
pub struct Cutter {
    codes: Vec<u16>,
    beginnings: Vec<Beginning>,
    under_way: Vec<Step>,    // beginnings that may go on
    costs: Vec<f64>,         // log probability of the best way from a character to the end of its run
    lengths: Vec<u8>,        // of the first word on this way
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
            at += match of_run {
                Kind::Word | Kind::Unspaced => {
                    points[at..].iter().take_while(|&&point| kind(point) == of_run || is_joiner(point)).count()
                }
                Kind::Han => points[at..].iter().take_while(|&&point| is_han(point)).count(),
                Kind::Alone | Kind::Break => 0,
            };
            match of_run {
                Kind::Han => self.segment(points, begin, at, dictionary),
                Kind::Unspaced if at - begin > 1 => {
                    self.tokens.extend((begin as u32..at as u32 - 1).map(|first| (first, first + 2)));
                }
                Kind::Word | Kind::Alone | Kind::Unspaced => self.tokens.push((begin as u32, at as u32)),
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
            let next = at + self.lengths[at] as usize;
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
        let code = |point: u32| if is_han(point) { dictionary.code(point) } else { 0 };
        self.codes.extend(points.iter().map(|&point| code(point)));
        self.codes.resize(points.len() + LONGEST, 0);
        self.costs.clear();
        self.costs.resize(points.len() + LONGEST, 0.0);
        self.lengths.resize(points.len(), 0);
        let mut end = points.len();
        while end > 0 {
            let begin = end.saturating_sub(AT_ONCE);
            self.look_up(begin, end, dictionary);
            self.choose(begin, points, dictionary);
            end = begin;
        }
    }

    /// Of the words at every character the one on the best way; of equal ones the longest.
    fn choose(&mut self, begin: usize, points: &[u32], dictionary: &Dictionary) {
        let mut behind: [f64; AHEAD] = std::array::from_fn(|length| self.costs[begin + self.beginnings.len() + length]);
        for (place, found) in self.beginnings.iter().enumerate().rev() {
            let at = begin + place;
            let (mut cost, mut length) = (f64::NEG_INFINITY, 0);
            for ahead in (0..AHEAD).rev() {
                let other = dictionary.cost(found.ranks[ahead]) + behind[ahead];
                length = if other > cost { ahead + 1 } else { length };
                cost = if other > cost { other } else { cost };
            }
            if found.next.0 > 0 {
                (cost, length) = self.longer(at, found.next, (cost, length), dictionary);
            }
            if length == 0 {
                length = 1;
                cost = if is_han(points[at]) { dictionary.unknown() + behind[0] } else { 0.0 };
            }
            behind = std::array::from_fn(|ahead| if ahead == 0 { cost } else { behind[ahead - 1] });
            self.costs[at] = cost;
            self.lengths[at] = length as u8;
        }
    }

    #[cold]
    fn longer(&self, at: usize, next: (u32, u32), best: (f64, usize), dictionary: &Dictionary) -> (f64, usize) {
        let ((mut parent, mut slot), mut best) = (next, best);
        for length in AHEAD + 1..LONGEST {
            let node = dictionary.node(slot);
            if node.parent() != parent {
                break;
            }
            let cost = dictionary.cost(node.rank()) + self.costs[at + length];
            if cost >= best.0 && cost > f64::NEG_INFINITY {
                best = (cost, length);
            }
            (parent, slot) = (slot, node.base() + self.codes[at + length] as u32);
        }
        best
    }

    /// Finds the words of the dictionary at every character, one more character at a time. What will be read is fetched
    /// a round before, so that many reads are under way at once: the trie is larger than a processor's cache.
    fn look_up(&mut self, begin: usize, end: usize, dictionary: &Dictionary) {
        let codes = &self.codes[begin..];
        self.beginnings.clear();
        self.under_way.clear();
        for (place, &code) in codes[..end - begin].iter().enumerate() {
            self.beginnings.push(Beginning::default());
            self.under_way.push(Step { place: place as u32, parent: 0, slot: code as u32 });
        }
        for length in 0..AHEAD {
            let mut left = 0;
            for number in 0..self.under_way.len() {
                let Step { place, parent, slot } = self.under_way[number];
                let node = dictionary.node(slot);
                let is_there = node.parent() == parent;
                self.beginnings[place as usize].ranks[length] = node.rank() * is_there as u16;
                let child = node.base() + codes[place as usize + length + 1] as u32;
                dictionary.fetch(child * is_there as u32);
                self.under_way[left] = Step { place, parent: slot, slot: child };
                left += is_there as usize;
            }
            self.under_way.truncate(left);
        }
        for step in &self.under_way {
            self.beginnings[step.place as usize].next = (step.parent, step.slot);
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
