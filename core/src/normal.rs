//! The normal form of texts: NFKC, lower case, without characters that readers do not see.
//!
//! Removed are characters that Unicode ignores by default (UAX #44: zero-width spaces, soft hyphens, direction
//! marks, variation selectors, tags), annotation marks, skin tones of emoji, the key box, control characters and
//! private use characters. Two are kept where orthography needs them:
//!
//! - The joiners U+200C and U+200D between letters of scripts in which they count (unicode.py lists these).
//!   Without them, Persian words and endings run together, and Sinhala or Malayalam form other conjuncts.
//! - U+200B between letters of scripts without spaces, where it ends a word. It becomes a space.
//!
//! Digits of all scripts become ASCII digits; white space becomes one space, and is removed at the ends, between
//! two Han characters and beside kana, where it comes from line breaks and spread names. At the end a table of
//! variants may replace characters (`Fold`).
//!
//! Most characters have a normal form that depends on no other: one look into BECOMES. The others belong to the
//! cluster that begins at the last such character before them, and the definition is carried out on the cluster.
//! A cluster never begins behind invisible characters with a letter beside which these count.

use crate::table::Table;
use crate::unicode;

// What characters become that are not one other character. SEVERAL and below: a place in unicode::SEVERAL.
const SAME: i32 = 0;
const AWKWARD: i32 = -1; // depends on the character before
const SPACE: i32 = -2;
const GONE: i32 = -3;
const SIGMA: i32 = -4; // its lower case depends on its place in a word
const FIRST: i32 = -5; // begins a cluster, and what follows may depend on what it becomes
const SEVERAL: i32 = -6;
static BECOMES: Table<i32> = Table { blocks: &unicode::BECOMES_BLOCKS, values: &unicode::BECOMES };

#[inline(always)]
fn becomes(point: u32) -> i32 {
    match BECOMES.get(point) {
        SAME => point as i32,
        other => other,
    }
}

// Properties: the canonical combining class in the lowest byte, and bits.
const CLASS: u32 = 0xFF;
const UNSEEN: u32 = 1 << 8;
const JOINED: u32 = 1 << 9; // begins with a letter beside which joiners count
const UNSPACED: u32 = 1 << 10; // begins with a letter of a script without spaces
pub const WORD: u32 = 1 << 11; // letters, marks and digits
pub const ALONE: u32 = 1 << 12; // a unit of boilerplate by itself
pub const RUN: u32 = 1 << 13; // part of a unit
const CASED_BEFORE: u32 = 1 << 14; // before a sigma: ends with a cased letter, without those that are skipped
const SKIPPED_BEFORE: u32 = 1 << 15;
const CASED_BEHIND: u32 = 1 << 16;
const SKIPPED_BEHIND: u32 = 1 << 17;
pub static PROPERTIES: Table<u32> = Table { blocks: &unicode::PROPERTIES_BLOCKS, values: &unicode::PROPERTIES };

static DECOMPOSED_AT: Table<u16> = Table { blocks: &unicode::DECOMPOSED_AT_BLOCKS, values: &unicode::DECOMPOSED_AT };

const JOINERS: [u32; 2] = [0x200C, 0x200D];
const ZERO_WIDTH_SPACE: u32 = 0x200B;
const VOICED: [u32; 2] = [0x3099, 0x309A]; // marks that compose with kana

/// Replacements of variant characters; None removes one.
#[derive(Default)]
pub struct Fold {
    points: Vec<u32>, // replacement of each character up to the last in the table
}

impl Fold {
    pub const GONE: u32 = u32::MAX;

    pub fn new(points: Vec<u32>) -> Self {
        Fold { points }
    }

    #[inline(always)]
    fn get(&self, point: u32) -> Option<u32> {
        let found = self.points.get(point as usize).copied().unwrap_or(point);
        (found != Self::GONE).then_some(found)
    }
}

/// A text in normal form, and where its characters came from.
#[derive(Default)]
pub struct Normal {
    pub points: Vec<u32>,
    /// Begin and end of the cluster that each character was made from; filled by `with_origins` only.
    pub origins: Vec<(u32, u32)>,
}

/// Appends UTF-8.
#[inline(always)]
pub fn encode(points: &[u32], bytes: &mut Vec<u8>) {
    for &point in points {
        let (code, length) = utf8(point);
        bytes.extend_from_slice(&code.to_le_bytes()[..length]);
    }
}

/// UTF-8 of a character, the first byte lowest, and the number of its bytes.
#[inline(always)]
pub fn utf8(point: u32) -> (u32, usize) {
    let low = |shift: u32| 0x80 | (point >> shift & 63);
    match point {
        0..0x80 => (point, 1),
        0x80..0x800 => (0xC0 | point >> 6 | low(0) << 8, 2),
        0x800..0x10000 => (0xE0 | point >> 12 | low(6) << 8 | low(0) << 16, 3),
        _ => (0xF0 | point >> 18 | low(12) << 8 | low(6) << 16 | low(0) << 24, 4),
    }
}

#[inline(always)]
pub fn is_han(point: u32) -> bool {
    matches!(point, 0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x3FFFF | 0x3005 | 0x3007)
}

/// True for most Han, small letters and digits of ASCII: they are their own normal form, unless what follows changes
/// them.
#[inline(always)]
fn is_plain(point: u32) -> bool {
    matches!(point, 0x4E00..=0x9FFF | 0x61..=0x7A | 0x30..=0x39)
}

#[inline(always)]
fn is_kana(point: u32) -> bool {
    point >= 0x3041
        && matches!(point, 0x3041..=0x3096 | 0x309D..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x30FF
            | 0x31F0..=0x31FF | 0x1AFF0..=0x1B16F)
}

pub fn is_space(point: u32) -> bool {
    matches!(point, 9..=13 | 28..=32 | 0x85 | 0xA0 | 0x1680 | 0x2000..=0x200A | 0x2028 | 0x2029 | 0x202F
        | 0x205F | 0x3000)
}

/// True for characters beside which a long text is never cut at white space: Han, kana, Hangul and what may
/// become one of these, and characters that are removed.
pub fn is_bound(point: u32) -> bool {
    is_space(point)
        || matches!(point, 0x2E80..=0xABFF | 0xD7B0..)
        || PROPERTIES.get(point) & UNSEEN != 0
        || becomes(point) == GONE
}

#[inline(always)]
fn keeps_space(before: u32, behind: u32) -> bool {
    !(is_han(before) && is_han(behind) || is_kana(behind) || is_kana(before) && !VOICED.contains(&behind))
}

/// Normalises a text.
pub fn normalise(text: &[u32], fold: Option<&Fold>, out: &mut Normal) {
    fill::<false>(text, fold, out);
}

/// Normalises a text, and notes where each character came from.
pub fn with_origins(text: &[u32], fold: Option<&Fold>, out: &mut Normal) {
    fill::<true>(text, fold, out);
}

fn fill<const ORIGINS: bool>(text: &[u32], fold: Option<&Fold>, out: &mut Normal) {
    out.points.clear();
    out.origins.clear();
    out.points.reserve(text.len());
    let mut spaced = false;
    let Normal { points, origins } = out;
    each(text, fold, |run, is_white, from, to| {
        let (point, others) = (run[0], &run[1..]);
        if is_white {
            spaced = true;
            return;
        }
        if std::mem::take(&mut spaced) && points.last().is_some_and(|&before| keeps_space(before, point)) {
            points.push(32);
            if ORIGINS {
                origins.push((from, from));
            }
        }
        points.push(point);
        if !others.is_empty() {
            points.extend_from_slice(others);
        }
        match (ORIGINS, others) {
            (false, _) => {}
            (true, []) => origins.push((from, to)),
            (true, _) => origins.extend((from..to).map(|at| (at, at + 1))),
        }
    });
}

/// The normal form, but with the white space of the text.
pub fn fold_case(text: &[u32], fold: Option<&Fold>, out: &mut Vec<u32>) {
    out.clear();
    each(text, fold, |run, _, _, _| out.extend_from_slice(run));
}

/// Hands out the characters of the normal form, whether they are white space, which stays, and begin and end of the
/// cluster in the text that they are made from. A run of several is that of the text: each is made from itself.
#[inline(always)]
fn each(text: &[u32], fold: Option<&Fold>, mut put: impl FnMut(&[u32], bool, u32, u32)) {
    let folded = |point: u32| fold.map_or(Some(point), |fold| fold.get(point));
    let mut slow = Cluster::default();
    let mut at = 0;
    let mut next = text.first().map_or(SPACE, |&point| becomes(point));
    while at < text.len() {
        if fold.is_none() && is_plain(text[at]) {
            let run = text[at + 1..].iter().take_while(|&&point| is_plain(point)).count();
            if run > 0 {
                put(&text[at..at + run], false, at as u32, (at + run) as u32);
                at += run; // the last may be changed by what follows
                next = becomes(text[at]);
            }
        }
        let this = next;
        let mut behind = at + 1;
        next = text.get(behind).map_or(SPACE, |&point| becomes(point));
        if this | next >= 0 && fold.is_none() {
            put(&[this as u32], false, at as u32, behind as u32); // most depend on no other
            at = behind;
            continue;
        }
        let is_open = matches!(next, AWKWARD | GONE) || fold.is_some() || this == AWKWARD;
        if is_open {
            behind = end_of_cluster(text, at, fold);
            next = text.get(behind).map_or(SPACE, |&point| becomes(point));
        }
        let (from, to) = (at as u32, behind as u32);
        match this {
            _ if behind > at + 1 || matches!(this, AWKWARD | SIGMA | FIRST) => {
                for &point in slow.normalise(text, at, behind, fold) {
                    put(&[point], is_space(point), from, to);
                }
            }
            point @ 0.. => folded(point as u32).into_iter().for_each(|point| put(&[point], false, from, to)),
            SPACE => put(&[white(text[at])], true, from, to),
            GONE => {}
            several => {
                let place = (SEVERAL - several) as usize;
                let count = unicode::SEVERAL[place] as usize;
                let parts = unicode::SEVERAL[place + 1..place + 1 + count].iter();
                parts.filter_map(|&point| folded(point)).for_each(|point| put(&[point], false, from, to));
            }
        }
        at = behind;
    }
}

/// White space in NFKC.
#[inline(always)]
fn white(point: u32) -> u32 {
    if point < 0x80 || matches!(point, 0x85 | 0x1680 | 0x2028 | 0x2029) {
        point
    } else {
        32
    }
}

fn end_of_cluster(text: &[u32], begin: usize, fold: Option<&Fold>) -> usize {
    let removed = |point: i32| fold.is_some_and(|fold| fold.get(point as u32).is_none());
    let mut at = begin + 1;
    let mut unseen = PROPERTIES.get(text[begin]) & UNSEEN != 0;
    while at < text.len() {
        match becomes(text[at]) {
            AWKWARD => unseen = PROPERTIES.get(text[at]) & UNSEEN != 0,
            GONE => {}
            point @ 0.. if removed(point) => {} // and what surrounds it may compose
            _ if unseen && PROPERTIES.get(text[at]) & (JOINED | UNSPACED) != 0 => unseen = false,
            _ => break,
        }
        at += 1;
    }
    at
}

/// The definition, step by step, for characters that depend on their neighbours.
#[derive(Default)]
struct Cluster {
    points: Vec<u32>,
    other: Vec<u32>,
}

impl Cluster {
    fn normalise(&mut self, text: &[u32], begin: usize, end: usize, fold: Option<&Fold>) -> &[u32] {
        self.points.clear();
        for (at, &point) in text[begin..end].iter().enumerate() {
            match becomes(point) {
                GONE => {}
                digit @ 0x30..=0x39 => self.points.push(digit as u32),
                SIGMA => self.points.push(if is_final(text, begin + at) { 0x3C2 } else { 0x3C3 }),
                _ => self.points.push(point),
            }
        }
        self.compose();
        self.lower();
        if self.points.iter().any(|&point| PROPERTIES.get(point) & UNSEEN != 0) {
            self.remove_unseen();
            self.compose();
        }
        if let Some(fold) = fold {
            let before = self.points.len();
            self.replace(|point, out| out.extend(fold.get(point)));
            if self.points.len() != before {
                self.compose();
            }
        }
        &self.points
    }

    fn replace(&mut self, put: impl Fn(u32, &mut Vec<u32>)) {
        self.other.clear();
        self.points.iter().for_each(|&point| put(point, &mut self.other));
        std::mem::swap(&mut self.points, &mut self.other);
    }

    fn lower(&mut self) {
        let lower = |point: u32| match unicode::LOWER.binary_search_by_key(&point, |pair| pair.0) {
            Ok(place) => unicode::LOWER[place].1,
            Err(_) => point,
        };
        if self.points.iter().any(|&point| point == 0x130 || lower(point) != point) {
            self.replace(|point, out| match point {
                0x130 => out.extend([0x69, 0x307]),
                _ => out.push(lower(point)),
            });
            self.compose(); // a capital and its accent may compose in lower case only
        }
    }

    /// NFKC (UAX #15).
    fn compose(&mut self) {
        self.replace(decompose);
        let points = &mut self.points;
        for marks in points.chunk_by_mut(|_, &behind| class(behind) > 0) {
            marks.sort_by_key(|&mark| class(mark)); // the first is a starter, or all are marks
        }
        let mut kept = 0; // characters that stay
        let mut starter = None;
        let mut last = 0; // class of the last that stayed behind the starter
        for at in 0..points.len() {
            let (point, of_point) = (points[at], class(points[at]));
            let joins = |first: usize| (last == 0 && kept == first + 1) || (last > 0 && last < of_point);
            if let Some(both) = starter.filter(|&first| joins(first)).and_then(|first| pair(points[first], point)) {
                points[starter.unwrap_or_default()] = both;
                continue;
            }
            if of_point == 0 {
                starter = Some(kept);
            }
            last = of_point;
            points[kept] = point;
            kept += 1;
        }
        points.truncate(kept);
    }

    /// Removes runs of invisible characters, but for a joiner or a space that orthography needs.
    fn remove_unseen(&mut self) {
        let unseen = |point: u32| PROPERTIES.get(point) & UNSEEN != 0;
        self.other.clear();
        let mut before = 0;
        let mut rest = &self.points[..];
        while let Some(&first) = rest.first() {
            let run = rest.iter().take_while(|&&point| unseen(point)).count();
            if run == 0 {
                self.other.push(first);
                (before, rest) = (PROPERTIES.get(first), &rest[1..]);
                continue;
            }
            let beside = before & rest.get(run).map_or(0, |&behind| PROPERTIES.get(behind));
            let joiner = rest[..run].iter().find(|point| JOINERS.contains(point));
            match joiner {
                Some(&joiner) if beside & JOINED != 0 => self.other.push(joiner),
                _ if beside & UNSPACED != 0 && rest[..run].contains(&ZERO_WIDTH_SPACE) => self.other.push(32),
                _ => {}
            }
            (before, rest) = (0, &rest[run..]);
        }
        std::mem::swap(&mut self.points, &mut self.other);
    }
}

/// True for a capital sigma at the end of a word (The Unicode Standard, table 3-17, Final_Sigma).
fn is_final(text: &[u32], at: usize) -> bool {
    let before = text[..at].iter().rev().map(|&point| PROPERTIES.get(point)).find(|bits| bits & SKIPPED_BEFORE == 0);
    let behind = text[at + 1..].iter().map(|&point| PROPERTIES.get(point)).find(|bits| bits & SKIPPED_BEHIND == 0);
    before.is_some_and(|bits| bits & CASED_BEFORE != 0) && behind.is_none_or(|bits| bits & CASED_BEHIND == 0)
}

#[inline(always)]
fn class(point: u32) -> u32 {
    PROPERTIES.get(point) & CLASS
}

const HANGUL: u32 = 0xAC00;
const LEADS: u32 = 0x1100;
const VOWELS: u32 = 0x1161;
const TAILS: u32 = 0x11A7; // one before the first, for none

fn decompose(point: u32, out: &mut Vec<u32>) {
    if (HANGUL..0xD7A4).contains(&point) {
        let number = point - HANGUL;
        out.extend([LEADS + number / 588, VOWELS + number % 588 / 28]);
        out.extend((!number.is_multiple_of(28)).then_some(TAILS + number % 28));
        return;
    }
    match DECOMPOSED_AT.get(point) as usize {
        0 => out.push(point),
        place => {
            let count = unicode::DECOMPOSED[place] as usize;
            out.extend_from_slice(&unicode::DECOMPOSED[place + 1..place + 1 + count]);
        }
    }
}

/// What two characters compose to.
fn pair(first: u32, second: u32) -> Option<u32> {
    match (first, second) {
        (LEADS..0x1113, VOWELS..0x1176) => Some(HANGUL + ((first - LEADS) * 21 + second - VOWELS) * 28),
        (HANGUL..0xD7A4, 0x11A8..0x11C3) if (first - HANGUL).is_multiple_of(28) => Some(first + second - TAILS),
        _ => {
            let key = (first as u64) << 32 | second as u64;
            let place = unicode::COMPOSED.binary_search_by_key(&key, |entry| entry.0).ok()?;
            Some(unicode::COMPOSED[place].1)
        }
    }
}

/// A hash of the normal form and the properties of every code point.
pub fn sum_of_all() -> u64 {
    let mut normal = Normal::default();
    let each = (0..=0x10FFFF).map(|point| {
        normalise(&[0x41, point, 0x42], None, &mut normal);
        let points = normal.points.iter().map(|&each| each as u64);
        crate::hash::chain(points.chain([PROPERTIES.get(point) as u64]))
    });
    crate::hash::chain(each)
}
