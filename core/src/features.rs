//! Weighted features of texts, each a digest of 64 or 128 bits: words, n-grams of words, or n-grams of the
//! characters without white space.
//!
//! A word's digest is MurmurHash3 of its UTF-8. The digest of an n-gram ("mix64") packs its values, characters of
//! 21 bits or digests of 64, into words of 64 bits, each of which is mixed in by fmix64. Words with the same first
//! 64 bits count as one.

use crate::dictionary::Dictionary;
use crate::growing::Growing;
use crate::hash::{chain, fmix64, murmur128, murmur128_short, GOLDEN};
use crate::keyed::{Keyed, Numbering, Values};
use crate::normal::{encode, utf8, Normal};
use crate::words::Cutter;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Words,
    WordNgrams(usize),
    Chars(usize),
    UpToTriples, // pairs and triples, and single characters in short texts
    Growing,     // see growing.rs
}

/// What a word weighs that occurs `count` times.
#[derive(Clone, Copy, PartialEq)]
pub enum Weights {
    Count,
    Capped,    // at most 1 + a fourth of the number of distinct words
    Saturated, // see `saturated`
    Idf,       // count x IDF
    Levels,    // the same as integers 1 to LEVELS, the highest for the heaviest fifth of the scale
}

const AT_ONCE: usize = 32; // words whose numbers are fetched before they are looked at
const LEVELS: u64 = 5;
const CAPPED_BY: u64 = 4;
const CHARACTER: u32 = 21; // bits
const DIGEST: u32 = 64;

pub struct Options {
    pub kind: Kind,
    pub weights: Weights,
    pub top: usize, // keep the heaviest, ties by the word's bytes; 0 keeps all
    pub min_length: usize,
    pub stop_words: HashSet<u64, Keyed>, // first 64 bits of their digests
    pub idf: Values,
    pub unknown: u64, // IDF of other words
    pub is_wide: bool,
    pub dictionary: Option<Arc<Dictionary>>,
}

/// Features of one text. weights: empty if all are 1, and then features may repeat.
#[derive(Default)]
pub struct Features {
    pub digests: Vec<[u64; 2]>,
    pub weights: Vec<u64>,
    distinct: Numbering,
    words: u64, // that count, with repeats
    token: Vec<u8>,
    tokens: Vec<u8>, // of words that are kept for their bytes
    ends: Vec<usize>,
    cutter: Cutter,
    growing: Growing,
}

impl Options {
    pub fn needs_words(&self) -> bool {
        matches!(self.kind, Kind::Words | Kind::WordNgrams(_))
    }

    fn keeps_tokens(&self) -> bool {
        self.top > 0
    }
}

impl Features {
    pub fn clear(&mut self) {
        self.digests.clear();
        self.weights.clear();
        self.distinct.clear();
        self.words = 0;
        self.tokens.clear();
        self.ends.clear();
    }

    /// Number of distinct features; `enough` or more may be too low.
    pub fn count_distinct(&mut self, enough: usize) -> usize {
        if !self.weights.is_empty() {
            return self.digests.len();
        }
        self.distinct.clear();
        for digest in &self.digests {
            if self.distinct.len() >= enough {
                break;
            }
            self.distinct.number(digest[0]);
        }
        self.distinct.len()
    }

    /// Adds the words of a part of a text.
    pub fn add_words(&mut self, normal: &Normal, options: &Options, keeps_tokens: bool) {
        let dictionary = options.dictionary.as_ref().expect("words need the dictionary");
        self.cutter.cut(normal, dictionary);
        for tokens in self.cutter.tokens.chunks(AT_ONCE) {
            let (mut found, mut count) = ([([0; 2], (0, 0)); AT_ONCE], 0);
            for &(begin, end) in tokens {
                if ((end - begin) as usize) < options.min_length {
                    continue;
                }
                let digest = digest_of(&normal.points[begin as usize..end as usize], &mut self.token);
                if options.stop_words.is_empty() || !options.stop_words.contains(&digest[0]) {
                    self.distinct.fetch(digest[0]);
                    found[count] = (digest, (begin, end));
                    count += 1;
                }
            }
            self.words += count as u64;
            for &(digest, (begin, end)) in &found[..count] {
                if options.kind == Kind::Words {
                    let (number, is_new) = self.distinct.number(digest[0]);
                    if !is_new {
                        self.weights[number] += 1;
                        continue;
                    }
                    self.weights.push(1);
                    options.idf.fetch(digest[0]);
                    if keeps_tokens || options.keeps_tokens() {
                        encode(&normal.points[begin as usize..end as usize], &mut self.tokens);
                        self.ends.push(self.tokens.len());
                    }
                }
                self.digests.push(digest);
            }
        }
    }

    /// Makes features of the words and characters of the whole text.
    pub fn complete(&mut self, bare: &[u32], options: &Options) {
        match options.kind {
            Kind::Words => self.weigh(options),
            Kind::WordNgrams(size) => self.join_words(size, options.is_wide),
            Kind::Chars(3) => self.digests.extend(ngrams(bare, 3, options.is_wide)),
            Kind::Chars(size) => self.digests.extend(ngrams(bare, size, options.is_wide)),
            Kind::UpToTriples => {
                let share = SHARES_OF_SINGLES.get(bare.len()).copied().unwrap_or(0);
                let singles = ngrams(bare, 1, options.is_wide);
                self.digests.extend(singles.filter(|digest| digest[0].wrapping_mul(GOLDEN) >> 56 < share));
                self.digests.extend(ngrams(bare, 2, options.is_wide));
                self.digests.extend(ngrams(bare, 3, options.is_wide));
            }
            Kind::Growing => {
                self.growing.read(bare);
                let second = |digest| if options.is_wide { chain([digest].into_iter()) } else { 0 };
                self.digests.extend(self.growing.digests.iter().map(|&digest| [digest, second(digest)]));
            }
        }
    }

    fn join_words(&mut self, size: usize, is_wide: bool) {
        let words = std::mem::take(&mut self.digests);
        self.digests.extend(words.windows(size).map(|some| {
            let column = |seed: usize| mix(some.iter().map(|digest| digest[seed]), size, seed, DIGEST);
            [column(0), if is_wide { column(1) } else { 0 }]
        }));
    }

    fn weigh(&mut self, options: &Options) {
        let distinct = self.digests.len() as u64;
        for (weight, digest) in self.weights.iter_mut().zip(&self.digests) {
            *weight = match options.weights {
                Weights::Count => *weight,
                Weights::Capped => (*weight).min(1 + distinct / CAPPED_BY),
                Weights::Saturated => saturated(*weight, self.words),
                _ => *weight * options.idf.get(digest[0]).unwrap_or(options.unknown),
            };
        }
        if options.top > 0 || matches!(options.weights, Weights::Idf | Weights::Levels) {
            let kept = self.heaviest(options.top);
            let weights = |this: &Self| kept.iter().map(|&number| this.weights[number]).collect();
            (self.digests, self.weights) = (kept.iter().map(|&number| self.digests[number]).collect(), weights(self));
        }
        if options.weights == Weights::Levels {
            let heaviest = self.weights.iter().copied().max().unwrap_or(1);
            self.weights.iter_mut().for_each(|weight| *weight = (LEVELS * *weight).div_ceil(heaviest));
        }
    }

    /// Numbers of the heaviest `top` features (0: of all), without those that weigh nothing.
    fn heaviest(&self, top: usize) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.digests.len()).filter(|&number| self.weights[number] > 0).collect();
        if top > 0 && kept.len() > top {
            kept.select_nth_unstable_by_key(top - 1, |&number| (Reverse(self.weights[number]), self.bytes_of(number)));
            kept.truncate(top);
        }
        kept
    }

    fn bytes_of(&self, number: usize) -> &[u8] {
        &self.tokens[number.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[number]]
    }

    /// The words of the text and their weights, heaviest first, ties by bytes. For words added with tokens.
    pub fn listed(&mut self, options: &Options) -> Vec<(Vec<u8>, u64)> {
        let numbers: HashMap<u64, usize, Keyed> =
            self.digests.iter().enumerate().map(|(n, digest)| (digest[0], n)).collect();
        self.weigh(options);
        let token = |digest: &[u64; 2]| self.bytes_of(numbers[&digest[0]]).to_vec();
        let mut listed: Vec<_> = self.digests.iter().map(token).zip(self.weights.iter().copied()).collect();
        listed.sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        listed
    }
}

/// MurmurHash3 of a word's UTF-8. That of a short one needs no memory. token: room for that of a long one.
#[inline(always)]
fn digest_of(word: &[u32], token: &mut Vec<u8>) -> [u64; 2] {
    let (mut bytes, mut length) = (0u128, 0);
    for &point in word {
        if length > 12 {
            token.clear();
            encode(word, token);
            return murmur128(token);
        }
        let (code, more) = utf8(point);
        bytes |= (code as u128) << (8 * length);
        length += more;
    }
    if length < 16 {
        return murmur128_short(bytes, length);
    }
    token.clear();
    encode(word, token);
    murmur128(token)
}

/// Digests of the n-grams of characters. A size that the compiler knows makes it twice as fast.
#[inline(always)]
fn ngrams(bare: &[u32], size: usize, is_wide: bool) -> impl Iterator<Item = [u64; 2]> + '_ {
    bare.windows(size).map(move |some| {
        let column = |seed: usize| mix(some[..size].iter().map(|&point| point as u64), size, seed, CHARACTER);
        [column(0), if is_wide { column(1) } else { 0 }]
    })
}

#[inline(always)]
fn mix(values: impl Iterator<Item = u64>, size: usize, seed: usize, width: u32) -> u64 {
    let mut state = GOLDEN.wrapping_mul((2 * size + 16 * seed + 1) as u64);
    let mut packed = 0u64;
    let mut room = 64;
    for value in values {
        if room < width {
            state = fmix64(state ^ packed);
            (packed, room) = (0, 64);
        }
        packed = if width == 64 { value } else { packed << width | value };
        room -= width;
    }
    fmix64(state ^ packed)
}

/// Weight of a repeated word in units of one half: c K / (c + K), the saturation of BM25 (Robertson, Zaragoza: The
/// Probabilistic Relevance Framework, 2009), with K = 6 (1024 / words)^4, but at least 6. So it equals the count in
/// short texts, is at most 6 in long ones, and changes little between texts of similar length. A word that a long
/// text on a narrow subject repeats a hundred times would decide every bit. Halves, not finer: with finer weights
/// ties never occur, and bits near a tie differ more often.
fn saturated(count: u64, words: u64) -> u64 {
    let count = count.min(1 << 15); // keeps products within 64 bits
    let bound = 6 * 1024u64.pow(4);
    let scaled = count * words.min(1024).pow(4);
    (4 * count * bound + scaled + bound) / (2 * (scaled + bound))
}

/// Share of the single characters of a text that count, by its length, out of 256: all up to 16 characters,
/// fading out over two doublings, 128 log2(64 / length).
#[rustfmt::skip]
const SHARES_OF_SINGLES: [u64; 65] = [
    256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 245, 234, 224, 215, 206,
    197, 189, 181, 174, 166, 159, 153, 146, 140, 134, 128, 122, 117, 111, 106, 101, 96, 91, 87, 82, 78, 73, 69, 65,
    61, 57, 53, 49, 46, 42, 38, 35, 31, 28, 25, 21, 18, 15, 12, 9, 6, 3, 0,
];
