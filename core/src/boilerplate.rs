//! Lines and phrases that many documents of a corpus share, removed before fingerprinting.
//!
//! Texts are compared by units: a character of a script without spaces, or a run of other letters, marks and
//! digits. Removed are lines that consist of the units of a boilerplate line, and runs of WINDOW or more units that
//! occur in a phrase. Runs are told apart by polynomials modulo 2^64 (Karp, Rabin, IBM J. Res. Dev. 31, 1987).

use crate::hash::{fmix64, GOLDEN};
use crate::keyed::Keyed;
use crate::normal::{fold_case, is_bound, is_space, Fold, ALONE, PROPERTIES, RUN};
use std::collections::HashSet;

pub const WINDOW: usize = 8; // units: unrelated texts share many shorter runs by grammar alone
const BREAK: u32 = 10;
const OF_LINES: u64 = 0xD1B5_4A32_D192_ED03; // makes the hash of a line differ from that of a phrase
const PIECE: usize = 1 << 16; // characters

/// The units of a folded text: begin, end and hash of each.
#[derive(Default)]
pub struct Units {
    pub points: Vec<u32>,
    pub spans: Vec<(usize, usize)>,
    hashes: Vec<u64>,
}

impl Units {
    pub fn cut(text: &[u32], fold: Option<&Fold>) -> Self {
        let mut units = Units::default();
        fold_case(text, fold, &mut units.points);
        let class = |at: usize| PROPERTIES.get(units.points[at]) & (ALONE | RUN);
        let mut at = 0;
        while at < units.points.len() {
            let begin = at;
            at += 1;
            match class(begin) {
                0 => continue,
                RUN => at += (at..units.points.len()).take_while(|&next| class(next) == RUN).count(),
                _ => {}
            }
            let values = units.points[begin..at].iter().map(|&point| fmix64((point as u64 + 1).wrapping_mul(GOLDEN)));
            units.hashes.push(polynomial(values));
            units.spans.push((begin, at));
        }
        units
    }

    /// All runs of WINDOW units: the first unit and hash of each, from the last to the first.
    pub fn windows(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let top = (0..WINDOW).fold(1u64, |power, _| power.wrapping_mul(GOLDEN));
        let mut sum = 0u64;
        (0..self.hashes.len()).rev().filter_map(move |first| {
            let behind = self.hashes.get(first + WINDOW).copied().unwrap_or(0);
            sum = sum.wrapping_mul(GOLDEN).wrapping_add(self.hashes[first]).wrapping_sub(top.wrapping_mul(behind));
            (first + WINDOW <= self.hashes.len()).then_some((first, fmix64(sum)))
        })
    }

    /// Lines that have units: begin and end among the characters, the first unit and the one after the last, hash.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = vec![];
        let (mut begin, mut first) = (0, 0);
        for part in self.points.split(|&point| point == BREAK) {
            let end = begin + part.len();
            let behind = first + self.spans[first..].iter().take_while(|span| span.0 < end).count();
            if behind > first {
                let hash = polynomial(self.hashes[first..behind].iter().copied()) ^ OF_LINES;
                lines.push(Line { begin, end, first, behind, hash });
            }
            (begin, first) = (end + 1, behind);
        }
        lines
    }
}

pub struct Line {
    begin: usize,
    end: usize,
    pub first: usize,
    pub behind: usize,
    pub hash: u64,
}

fn polynomial(values: impl DoubleEndedIterator<Item = u64>) -> u64 {
    fmix64(values.rev().fold(0, |sum, value| sum.wrapping_mul(GOLDEN).wrapping_add(value)))
}

#[derive(Default)]
pub struct Boilerplate {
    windows: HashSet<u64, Keyed>, // of all phrases
    lines: HashSet<u64, Keyed>,
}

impl Boilerplate {
    pub fn new(lines: &[Vec<u32>], phrases: &[Vec<u32>], fold: Option<&Fold>) -> Self {
        let cut = |text: &Vec<u32>| Units::cut(text, fold);
        Boilerplate {
            windows: phrases
                .iter()
                .map(cut)
                .flat_map(|units| units.windows().map(|each| each.1).collect::<Vec<_>>())
                .collect(),
            lines: lines.iter().map(cut).flat_map(|units| units.lines()).map(|line| line.hash).collect(),
        }
    }

    /// The text with spaces for boilerplate, and the rest folded; each piece of a very long text by itself. None if
    /// it has no boilerplate.
    pub fn strip(&self, text: &[u32], fold: Option<&Fold>) -> Option<Vec<u32>> {
        let mut stripped = vec![];
        let mut has_any = false;
        for piece in pieces(text) {
            let units = Units::cut(piece, fold);
            let gaps = self.gaps(&units);
            if gaps.is_empty() {
                stripped.extend_from_slice(piece);
            } else {
                has_any = true;
                write_without(&units.points, &gaps, &mut stripped);
            }
        }
        has_any.then_some(stripped)
    }

    /// Begin and end of what is boilerplate, with the punctuation behind a unit, in ascending order.
    fn gaps(&self, units: &Units) -> Vec<(usize, usize)> {
        let mut gaps = vec![];
        let mut covered = units.spans.len(); // the first unit of the windows found so far, from the last on
        for (first, hash) in units.windows() {
            if self.windows.contains(&hash) {
                for unit in (first..covered.min(first + WINDOW)).rev() {
                    let end = units.spans.get(unit + 1).map_or(units.points.len(), |next| next.0);
                    gaps.push((units.spans[unit].0, end));
                }
                covered = first;
            }
        }
        if !self.lines.is_empty() {
            let known = units.lines().into_iter().filter(|line| self.lines.contains(&line.hash));
            gaps.extend(known.map(|line| (line.begin, line.end)).filter(|gap| gap.0 < gap.1));
        }
        gaps.sort_unstable();
        gaps
    }
}

fn write_without(points: &[u32], gaps: &[(usize, usize)], out: &mut Vec<u32>) {
    let mut at = 0; // what is before it has been written or dropped
    let mut follows_gap = false;
    for &(begin, end) in gaps {
        if begin > at || !follows_gap {
            out.extend_from_slice(&points[at..begin]);
            out.push(32);
            follows_gap = true;
        }
        at = at.max(end);
    }
    out.extend_from_slice(&points[at..]);
}

/// Parts of a long text of about PIECE characters, longer if it cannot be cut. They have the same words as the text,
/// and the same normal form but for white space: a part begins at a character that is in no word and across which
/// neighbours never interact.
pub fn pieces(text: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let whole = rest?;
        let cut = (PIECE..whole.len()).find(|&at| is_border(whole, at));
        rest = cut.map(|at| &whole[at..]);
        Some(&whole[..cut.unwrap_or(whole.len())])
    })
}

fn is_border(text: &[u32], at: usize) -> bool {
    match text[at] {
        0x2C | 0x3B | 0x21 | 0x3F | 0xFF0C | 0xFF1B | 0xFF01 | 0xFF1F | 0x3001 | 0x3002 => true, // ,;!?，；！？、。
        space if is_space(space) && !is_bound(text[at - 1]) => {
            text[at..].iter().find(|&&point| !is_space(point)).is_some_and(|&point| !is_bound(point))
        }
        _ => false,
    }
}
