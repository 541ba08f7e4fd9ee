//! From a text to its fingerprint and sketch, by the parameters of a profile.

use crate::boilerplate::{pieces, Boilerplate};
use crate::features::{Features, Kind, Options};
use crate::growing::Growing;
use crate::hash::{chain, murmur32};
use crate::minhash::Permutations;
use crate::normal::{normalise, Fold, Normal};
use crate::simhash::simhash;
use std::sync::Arc;

const COUNTED: usize = 128; // features: sketches do not count further

/// Sketches. is_sized: one further byte is the number of distinct features, at most COUNTED; is_numbered: four further
/// bytes are a hash of the text's numbers.
pub struct Sketching {
    pub permutations: Permutations,
    pub is_sized: bool,
    pub is_numbered: bool,
    pub is_fingerprint: bool, // of the features, and its hash is the fingerprint; else of growing shingles
}

pub struct Pipeline {
    pub options: Options,
    pub fold: Option<Arc<Fold>>,
    pub boilerplate: Option<Arc<Boilerplate>>,
    pub sketching: Option<Sketching>,
    pub min_features: usize,
}

/// What is known of the text at hand. It keeps its memory for the next text.
#[derive(Default)]
pub struct Scratch {
    normal: Normal,
    bare: Vec<u32>, // without white space
    numbers: Vec<Box<[u8]>>,
    pub features: Features,
    growing: Growing, // shingles
    shingles: Vec<u32>,
}

/// Of the texts so far: fingerprints (one or two words each), sketches, and numbers of distinct features (min_features
/// or more may be too low).
#[derive(Default)]
pub struct Fingerprints {
    pub values: Vec<u64>,
    pub sketches: Vec<u8>,
    pub distinct: Vec<u32>,
}

impl Pipeline {
    pub fn fingerprint(&self, text: &[u32], scratch: &mut Scratch, out: &mut Fingerprints) {
        self.extract(text, scratch);
        let is_sized = self.sketching.as_ref().is_some_and(|sketching| sketching.is_sized);
        let enough = if is_sized { COUNTED.max(self.min_features) } else { self.min_features };
        let distinct = scratch.features.count_distinct(enough);
        out.distinct.push(distinct as u32);
        let begin = out.sketches.len();
        if let Some(sketching) = &self.sketching {
            sketching.sketch(distinct, scratch, &mut out.sketches);
        }
        if self.sketching.as_ref().is_some_and(|sketching| sketching.is_fingerprint) {
            out.values.push(hash_of(&out.sketches[begin..]));
            return;
        }
        let Features { digests, weights, .. } = &scratch.features;
        for word in 0..1 + self.options.is_wide as usize {
            out.values.push(simhash(digests.iter().map(|digest| digest[word]), weights));
        }
    }

    /// Finds the features of a text.
    pub fn extract(&self, text: &[u32], scratch: &mut Scratch) {
        self.read(text, false, scratch);
        scratch.features.complete(&scratch.bare, &self.options);
    }

    /// The words of a text and their weights, heaviest first, ties by bytes.
    pub fn words(&self, text: &[u32], scratch: &mut Scratch) -> Vec<(Vec<u8>, u64)> {
        self.read(text, true, scratch);
        scratch.features.listed(&self.options)
    }

    /// The normal form of a text without boilerplate and white space.
    pub fn bare(&self, text: &[u32]) -> Vec<u32> {
        let fold = self.fold.as_deref();
        let stripped = self.boilerplate.as_ref().and_then(|boilerplate| boilerplate.strip(text, fold));
        let (mut normal, mut bare) = (Normal::default(), vec![]);
        for piece in pieces(stripped.as_deref().unwrap_or(text)) {
            normalise(piece, fold, &mut normal);
            append_bare(&normal, &mut bare);
        }
        bare
    }

    fn read(&self, text: &[u32], keeps_tokens: bool, scratch: &mut Scratch) {
        let fold = self.fold.as_deref();
        let stripped = self.boilerplate.as_ref().and_then(|boilerplate| boilerplate.strip(text, fold));
        let is_bare = !self.options.needs_words() || self.sketching.as_ref().is_some_and(|each| !each.is_fingerprint);
        let is_numbered = self.sketching.as_ref().is_some_and(|sketching| sketching.is_numbered);
        let Scratch { normal, bare, numbers, features, .. } = scratch;
        bare.clear();
        numbers.clear();
        features.clear();
        for piece in pieces(stripped.as_deref().unwrap_or(text)) {
            normalise(piece, fold, normal);
            if is_bare {
                append_bare(normal, bare);
            }
            if self.options.needs_words() {
                features.add_words(normal, &self.options, keeps_tokens);
            }
            if is_numbered {
                let runs = normal.points.split(|point| !(0x30..0x3A).contains(point)).filter(|run| !run.is_empty());
                numbers.extend(runs.map(|run| run.iter().map(|&digit| digit as u8).collect()));
            }
        }
    }
}

fn append_bare(normal: &Normal, bare: &mut Vec<u32>) {
    normal.points.split(|&point| point == 32).for_each(|run| bare.extend_from_slice(run));
}

impl Sketching {
    fn sketch(&self, distinct: usize, scratch: &mut Scratch, sketch: &mut Vec<u8>) {
        let shingles = &mut scratch.shingles;
        shingles.clear();
        if self.is_fingerprint {
            shingles.extend(scratch.features.digests.iter().map(|digest| (digest[0] >> 32) as u32));
        } else {
            scratch.growing.read(&scratch.bare);
            shingles.extend(scratch.growing.digests.iter().map(|digest| (digest >> 32) as u32));
        }
        self.permutations.sketch(shingles, sketch);
        if self.is_sized {
            sketch.push(distinct.min(COUNTED) as u8);
        }
        if self.is_numbered {
            let numbers = if shingles.is_empty() { 0 } else { hash_of_numbers(&mut scratch.numbers) };
            sketch.extend(numbers.to_be_bytes());
        }
    }
}

fn hash_of_numbers(numbers: &mut Vec<Box<[u8]>>) -> u32 {
    numbers.sort_unstable();
    numbers.dedup();
    murmur32(&numbers.join(&b' '))
}

fn hash_of(sketch: &[u8]) -> u64 {
    chain(sketch.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_be_bytes(word)
    }))
}

/// Kinds by name, as in profiles.
pub fn kind_of(name: &str) -> Option<Kind> {
    let size = |text: &str| text.parse().ok().filter(|size| (1..10).contains(size));
    match name.split_once(':') {
        None => (name == "words").then_some(Kind::Words),
        Some(("chars", "1-3")) => Some(Kind::UpToTriples),
        Some(("chars", "growing")) => Some(Kind::Growing),
        Some(("chars", text)) => size(text).map(Kind::Chars),
        Some(("words", text)) => size(text).map(Kind::WordNgrams),
        _ => None,
    }
}
