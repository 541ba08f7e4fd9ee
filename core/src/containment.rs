//! Containment: the share of a text's characters that another text has, too, both in normal form without white space.
//! A character counts if it lies in a run that the other text has anywhere: 13 characters in a row, or 6 Han characters
//! in a row. A text of fewer than 13 characters that the other text has as a whole is contained, whatever its runs; so
//! is an empty one. Order and number do not count, and the two directions differ.
//!
//! Runs of 13 Han characters need not be looked at: the other text has one only if it has the 6 within. Runs are told
//! apart by 64 bits.

use crate::hash::chain;
use crate::keyed::Keyed;
use crate::normal::is_han;
use std::collections::HashSet;
use std::ops::Range;

const LONG: usize = 13;
const HAN: usize = 6;

/// The runs of a text.
struct Runs<'a> {
    text: &'a [u32],
    hashes: HashSet<u64, Keyed>,
}

impl<'a> Runs<'a> {
    fn of(text: &'a [u32]) -> Self {
        let mut hashes = HashSet::with_capacity_and_hasher(text.len(), Keyed::default());
        each_run(text, |run| {
            hashes.insert(hash(&text[run]));
        });
        Runs { text, hashes }
    }

    /// The share of a text's characters that lie in these runs.
    fn share(&self, of: &[u32]) -> f64 {
        if of.is_empty() || of.len() < LONG && self.text.windows(of.len()).any(|window| window == of) {
            return 1.0;
        }
        let (mut count, mut end) = (0, 0); // of the characters before `end`, some lie in runs
        each_run(of, |run| {
            if run.end > end && self.hashes.contains(&hash(&of[run.clone()])) {
                count += run.end - end.max(run.start);
                end = run.end;
            }
        });
        count as f64 / of.len() as f64
    }
}

/// Runs by their start, of those with one start the shorter first.
fn each_run(text: &[u32], mut take: impl FnMut(Range<usize>)) {
    let mut end = 0; // of the Han characters in a row
    for start in 0..text.len() {
        if end <= start {
            end = start + text[start..].iter().take_while(|&&point| is_han(point)).count();
        }
        if end - start >= HAN {
            take(start..start + HAN);
        }
        if end - start < LONG && text.len() - start >= LONG {
            take(start..start + LONG);
        }
    }
}

#[inline(always)]
fn hash(run: &[u32]) -> u64 {
    chain(run.chunks(3).map(|three| three.iter().fold(run.len() as u64, |word, &point| word << 21 | point as u64)))
}

/// Containment of pairs of texts, given by their numbers: that of the first in the second.
pub fn containment(texts: &[Vec<u32>], pairs: &[(usize, usize)]) -> Vec<f64> {
    let mut found = vec![0.0; pairs.len()];
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|&number| pairs[number].1);
    for group in order.chunk_by(|&one, &other| pairs[one].1 == pairs[other].1) {
        let runs = Runs::of(&texts[pairs[group[0]].1]);
        group.iter().for_each(|&number| found[number] = runs.share(&texts[pairs[number].0]));
    }
    found
}
