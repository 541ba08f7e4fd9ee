//! Exact Jaccard similarity of texts: that of the sets of their features, by the first 64 bits of their digests.

use crate::keyed::Numbering;

/// Sets of features, one after the other, each ascending.
#[derive(Default)]
pub struct Sets {
    features: Vec<u64>,
    ends: Vec<usize>,
}

impl Sets {
    /// Adds a set of features, which may repeat.
    pub fn add(&mut self, digests: impl Iterator<Item = u64>) {
        let begin = self.features.len();
        self.features.extend(digests);
        self.features[begin..].sort_unstable();
        let mut end = begin;
        for at in begin..self.features.len() {
            if end == begin || self.features[at] != self.features[end - 1] {
                self.features[end] = self.features[at];
                end += 1;
            }
        }
        self.features.truncate(end);
        self.ends.push(end);
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.ends.len()).map(|number| self.get(number))
    }

    pub fn get(&self, number: usize) -> &[u64] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.features[begin..self.ends[number]]
    }

    /// Similarity of two sets, 0 if both are empty.
    pub fn similarity(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (self.get(one), self.get(other));
        let both = common(one, other);
        both as f64 / (one.len() + other.len() - both).max(1) as f64
    }

    /// Features that several sets have, as ranks by the number of these sets, rarest first: those of each set,
    /// ascending, and where each set begins, with the end of the last.
    pub fn ranked(&self) -> (Vec<u32>, Vec<u64>) {
        let mut distinct = Numbering::default();
        let numbers: Vec<u32> = self.features.iter().map(|&feature| distinct.number(feature).0 as u32).collect();
        let mut counts = vec![0u32; distinct.len()];
        numbers.iter().for_each(|&number| counts[number as usize] += 1);
        let mut order: Vec<u32> = (0..counts.len() as u32).collect();
        order.sort_by_key(|&number| counts[number as usize]);
        let mut ranks = vec![0; counts.len()];
        order.iter().zip(0..).for_each(|(&number, rank)| ranks[number as usize] = rank);
        let (mut tokens, mut bounds, mut begin) = (vec![], vec![0], 0);
        for &end in &self.ends {
            let shared = numbers[begin..end].iter().filter(|&&number| counts[number as usize] > 1);
            let first = tokens.len();
            tokens.extend(shared.map(|&number| ranks[number as usize]));
            tokens[first..].sort_unstable();
            bounds.push(tokens.len() as u64);
            begin = end;
        }
        (tokens, bounds)
    }
}

/// Number of features that are in both sets. Without jumps that a processor would have to guess.
fn common(one: &[u64], other: &[u64]) -> usize {
    let (mut first, mut second, mut both) = (0, 0, 0);
    while first < one.len() && second < other.len() {
        let (left, right) = (one[first], other[second]);
        both += (left == right) as usize;
        first += (left <= right) as usize;
        second += (right <= left) as usize;
    }
    both
}
