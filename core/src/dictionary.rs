//! jieba's dictionary as a trie, and its hidden Markov model, in one block of bytes that can be mapped from a
//! file: it takes two seconds to build, and a millisecond to check.
//!
//! Little-endian words of 64 bits: MAGIC with the version of this format, sum of all behind the sum, then the
//! number of words and the words of each section. Numbers smaller than 64 bits fill words together.

use crate::hash::fmix64;
use crate::table::fetch;
use std::cmp::Reverse;

pub const FIRST_HAN: u32 = 0x4E00; // jieba's own range
pub const END_HAN: u32 = 0x9FD6;
pub const LONGEST: usize = 32; // characters of a word
const HAN: usize = (END_HAN - FIRST_HAN) as usize;
const IMPOSSIBLE: f64 = -3.14e100; // jieba's
const NOBODY: u64 = (1 << 24) - 1;
pub const VERSION: u8 = 1; // of this format and of what `build` makes
const MAGIC: u64 = u64::from_le_bytes(*b"simhdic\0") | (VERSION as u64) << 56;
const SECTIONS: usize = 5;

/// A node of the trie: its parent's slot, the base of its children, and the rank of the word that ends there.
#[derive(Clone, Copy)]
pub struct Node(u64);

impl Node {
    pub fn parent(self) -> u32 {
        (self.0 >> 40) as u32
    }
    pub fn base(self) -> u32 {
        (self.0 >> 16 & NOBODY) as u32
    }
    /// Place of the word's cost; 0 if no word ends here.
    pub fn rank(self) -> u16 {
        self.0 as u16
    }
}

/// Sections of the block. The children of a node lie at its base + their codes.
pub struct Dictionary {
    nodes: &'static [u64],
    costs: &'static [u64], // log probabilities of words by rank, as bits; the last is that of unknown characters
    codes: &'static [u64], // four characters a word; 0 for those in no word
    emissions: &'static [u64], // four states (B, E, M, S) a character, as bits
    pub starts: [f64; 4],
    pub transitions: [[f64; 4]; 4],
    _memory: Box<dyn Send + Sync>, // that holds the sections
}

impl Dictionary {
    /// Reads a block. None if it is another version or damaged.
    ///
    /// # Safety
    /// `memory` must hold the words, unchanged, until it is dropped.
    pub unsafe fn open(words: *const [u64], memory: Box<dyn Send + Sync>) -> Option<Self> {
        // SAFETY: they live as long as the dictionary, which hands out none of them.
        let words: &'static [u64] = unsafe { &*words };
        let (head, mut rest) = words.split_at_checked(2 + SECTIONS)?;
        if head[0] != MAGIC || head[1] != sum(&words[2..]) {
            return None;
        }
        let mut sections = [&words[..0]; SECTIONS];
        for (section, &count) in sections.iter_mut().zip(&head[2..]) {
            (*section, rest) = rest.split_at_checked(count as usize)?;
        }
        let [nodes, costs, codes, emissions, model] = sections;
        let number = |place: usize| f64::from_bits(model[place]);
        (model.len() == 20).then(|| Dictionary {
            nodes,
            costs,
            codes,
            emissions,
            starts: std::array::from_fn(number),
            transitions: std::array::from_fn(|from| std::array::from_fn(|to| number(4 + 4 * from + to))),
            _memory: memory,
        })
    }

    #[inline(always)]
    pub fn node(&self, slot: u32) -> Node {
        Node(self.nodes[slot as usize])
    }

    #[inline(always)]
    pub fn fetch(&self, slot: u32) {
        fetch(self.nodes, slot as usize);
    }

    #[inline(always)]
    pub fn cost(&self, rank: u16) -> f64 {
        f64::from_bits(self.costs[rank as usize])
    }

    pub fn unknown(&self) -> f64 {
        f64::from_bits(self.costs[self.costs.len() - 1])
    }

    #[inline(always)]
    pub fn code(&self, point: u32) -> u16 {
        let place = (point - FIRST_HAN) as usize;
        (self.codes[place / 4] >> (16 * (place % 4))) as u16
    }

    #[inline(always)]
    pub fn emission(&self, point: u32) -> [f64; 4] {
        let first = 4 * (point - FIRST_HAN) as usize;
        std::array::from_fn(|state| f64::from_bits(self.emissions[first + state]))
    }

    /// True for the codes of a word.
    pub fn has(&self, codes: &[u16]) -> bool {
        let mut slot = 0;
        let mut base = 0;
        for &code in codes {
            let child = base + code as u32;
            if code == 0 || self.node(child).parent() != slot {
                return false;
            }
            (slot, base) = (child, self.node(child).base());
        }
        self.node(slot).rank() > 0
    }
}

fn sum(words: &[u64]) -> u64 {
    let mut lanes = [1u64, 2, 3, 4, 5, 6, 7, 8];
    for chunk in words.chunks(8) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = (lane.rotate_left(29) ^ word).wrapping_mul(crate::hash::GOLDEN);
        }
    }
    lanes.iter().fold(words.len() as u64, |state, lane| fmix64(state ^ lane))
}

/// jieba's model. emissions: state (0 to 3 for B, E, M, S), character and log probability.
pub struct Model {
    pub starts: [f64; 4],
    pub transitions: [[f64; 4]; 4],
    pub emissions: Vec<(usize, char, f64)>,
}

/// Makes the block of a dictionary. content: jieba's dict.txt. Fails at a malformed line.
pub fn build(content: &str, model: &Model) -> Result<Vec<u64>, String> {
    let (words, total) = counted(content)?;
    let log_total = (total as f64).ln();
    let mut frequencies: Vec<u64> = words.iter().map(|word| word.1).filter(|&count| count > 0).collect();
    frequencies.sort_unstable();
    frequencies.dedup();
    let mut costs = vec![f64::NEG_INFINITY];
    costs.extend(frequencies.iter().map(|&count| (count as f64).ln() - log_total));
    costs.push(-log_total);
    let codes = codes(&words);
    let place = |each: char| (each as u32 - FIRST_HAN) as usize;
    let rank = |count: u64| if count > 0 { 1 + frequencies.partition_point(|&other| other < count) as u16 } else { 0 };
    let coded = words.iter().map(|(word, count)| (word.chars().map(|each| codes[place(each)]).collect(), rank(*count)));
    let nodes = double_array(coded.collect());
    let mut emissions = vec![IMPOSSIBLE; 4 * HAN];
    for &(state, character, value) in model.emissions.iter().filter(|each| is_han(each.1)) {
        emissions[4 * place(character) + state] = value;
    }
    let numbers = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let packed = |some: &[u16]| some.iter().rev().fold(0, |word, &code| word << 16 | code as u64);
    let of_model = [&model.starts[..], model.transitions.as_flattened()].concat();
    let sections: [Vec<u64>; SECTIONS] =
        [nodes, numbers(&costs), codes.chunks(4).map(packed).collect(), numbers(&emissions), numbers(&of_model)];
    let mut block = vec![MAGIC, 0];
    block.extend(sections.iter().map(|section| section.len() as u64));
    sections.iter().for_each(|section| block.extend_from_slice(section));
    block[1] = sum(&block[2..]);
    Ok(block)
}

type Word<'a> = (&'a str, u64); // and its frequency

fn is_han(character: char) -> bool {
    (FIRST_HAN..END_HAN).contains(&(character as u32))
}

/// Words of Han, sorted, with their frequencies, and the sum of all frequencies.
fn counted(content: &str) -> Result<(Vec<Word<'_>>, u64), String> {
    let mut words = vec![];
    let mut total = 0;
    for (number, line) in content.lines().enumerate() {
        let mut fields = line.split(' ');
        let word = fields.next().unwrap_or_default();
        let count = fields.next().and_then(|field| field.parse::<u64>().ok());
        let count = count.ok_or_else(|| format!("line {}: expected a word and a count, found {line:?}", number + 1))?;
        total += count;
        if !word.is_empty() && word.chars().all(is_han) {
            if word.chars().count() > LONGEST {
                return Err(format!("line {}: words have at most {LONGEST} characters, not {word:?}", number + 1));
            }
            words.push((word, count));
        }
    }
    words.sort_by(|one, other| one.0.cmp(other.0));
    words.dedup_by(|later, first| {
        later.0 == first.0 && {
            first.1 = later.1;
            true
        }
    }); // the last counts
    Ok((words, total))
}

/// Codes of characters: from 1 for the one in most words, 0 for those in none.
fn codes(words: &[Word]) -> Vec<u16> {
    let mut often: Vec<(u32, usize)> = (0..HAN).map(|place| (0, place)).collect();
    for character in words.iter().flat_map(|word| word.0.chars()) {
        often[(character as u32 - FIRST_HAN) as usize].0 += 1;
    }
    often.retain(|each| each.0 > 0);
    often.sort_by_key(|&(count, place)| (Reverse(count), place));
    let mut codes = vec![0; HAN];
    for (number, &(_, place)) in often.iter().enumerate() {
        codes[place] = number as u16 + 1;
    }
    codes
}

/// Aoe's double array (An Efficient Digital Search Algorithm by Using a Double-Array Structure, 1989) of words
/// and their ranks. Nodes with the most children are placed first; the others fit into the gaps.
fn double_array(mut words: Vec<(Vec<u16>, u16)>) -> Vec<u64> {
    words.sort();
    let trie = Trie::new(&words);
    let mut order: Vec<usize> = (0..trie.children.len()).filter(|&node| !trie.children[node].is_empty()).collect();
    order.sort_by_key(|&node| Reverse(trie.children[node].len()));
    let mut taken = Taken(vec![1]);
    let mut slots = vec![0; trie.children.len()];
    let mut bases = vec![0; trie.children.len()];
    let mut start = 1;
    let mut siblings = 0;
    for node in order {
        let children = &trie.children[node];
        if children.len() != siblings {
            (start, siblings) = (1, children.len());
        }
        let lead = trie.codes[children[0]] as usize;
        let mut slot = taken.next_free(start.max(lead));
        while children[1..].iter().any(|&child| taken.get(slot - lead + trie.codes[child] as usize)) {
            slot = taken.next_free(slot + 1);
        }
        if siblings > 1 || lead <= start {
            start = slot;
        }
        bases[node] = slot - lead;
        for &child in children {
            slots[child] = slot - lead + trie.codes[child] as usize;
            taken.set(slots[child]);
        }
    }
    let widest = trie.codes.iter().max().map_or(0, |&code| code as usize);
    let end = slots.iter().max().unwrap_or(&0) + widest + 2;
    let mut nodes = vec![NOBODY << 40; end.max(1 << 16)]; // every character's code is a slot
    for (node, &slot) in slots.iter().enumerate() {
        let parent = if node == 0 { NOBODY } else { slots[trie.parents[node]] as u64 };
        nodes[slot] = parent << 40 | (bases[node] as u64) << 16 | trie.ranks[node] as u64;
    }
    nodes
}

/// A trie by nodes: the root is 0, and a node's parent comes before it.
struct Trie {
    parents: Vec<usize>,
    children: Vec<Vec<usize>>,
    codes: Vec<u16>,
    ranks: Vec<u16>,
}

impl Trie {
    fn new(words: &[(Vec<u16>, u16)]) -> Self {
        let mut trie = Trie { parents: vec![0], children: vec![vec![]], codes: vec![0], ranks: vec![0] };
        let mut path = vec![0]; // nodes of the word's prefixes
        let mut before: &[u16] = &[];
        for (word, rank) in words {
            let common = word.iter().zip(before).take_while(|(one, other)| one == other).count();
            path.truncate(common + 1);
            for &code in &word[common..] {
                path.push(trie.add(path[path.len() - 1], code));
            }
            trie.ranks[path[path.len() - 1]] = *rank;
            before = word;
        }
        trie
    }

    fn add(&mut self, parent: usize, code: u16) -> usize {
        let node = self.parents.len();
        self.parents.push(parent);
        self.children.push(vec![]);
        self.children[parent].push(node);
        self.codes.push(code);
        self.ranks.push(0);
        node
    }
}

/// A bit for each slot.
struct Taken(Vec<u64>);

impl Taken {
    fn word(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or(0)
    }

    fn get(&self, slot: usize) -> bool {
        self.word(slot / 64) >> (slot % 64) & 1 == 1
    }

    fn set(&mut self, slot: usize) {
        self.0.resize(self.0.len().max(slot / 64 + 1), 0);
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn next_free(&self, slot: usize) -> usize {
        let mut number = slot / 64;
        let mut free = !self.word(number) & (!0 << (slot % 64));
        while free == 0 {
            number += 1;
            free = !self.word(number);
        }
        64 * number + free.trailing_zeros() as usize
    }
}
