//! Drawers of fingerprints in memory, to be read and changed at any time.
//!
//! - A drawer is named by a prefix, a number of 40 bits. Most hold one fingerprint, which stands in the table itself;
//!   those of the others are in an ordered set. So a crowded drawer costs what is read of it, and a change little.
//! - The table is open: a drawer is at the first place that is not taken from its hash on.

use crate::keyed::Key;
use crate::table::fetch;
use std::collections::BTreeSet;

pub const PREFIX_BYTES: usize = 5;
pub const KEY_BYTES: usize = 13; // prefix and fingerprint, big-endian

const LEAST: usize = 16; // slots

#[derive(Clone, Copy)]
enum Held {
    Nothing,
    One(u64),
    Several(usize), // number of the set
}

/// A drawer's prefix above two bits for what it holds, and the fingerprint or the number of the set. Two words, where
/// a prefix and a `Held` take three.
#[derive(Clone, Copy, Default)]
struct Slot {
    named: u64,
    value: u64,
}

impl Slot {
    #[inline(always)]
    fn new(prefix: u64, held: Held) -> Self {
        match held {
            Held::Nothing => Slot::default(),
            Held::One(fingerprint) => Slot { named: prefix << 2 | 1, value: fingerprint },
            Held::Several(set) => Slot { named: prefix << 2 | 2, value: set as u64 },
        }
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        self.named & 3 == 0
    }

    #[inline(always)]
    fn prefix(&self) -> u64 {
        self.named >> 2
    }

    #[inline(always)]
    fn held(&self) -> Held {
        match self.named & 3 {
            0 => Held::Nothing,
            1 => Held::One(self.value),
            _ => Held::Several(self.value as usize),
        }
    }
}

/// Fingerprints by the prefixes of their drawers.
#[derive(Default)]
pub struct Drawers {
    slots: Vec<Slot>,
    used: usize,
    sets: Vec<BTreeSet<u64>>,
    unused: Vec<usize>, // sets of drawers that are gone
    rows: usize,
    key: Key,
}

/// The fingerprints of one drawer.
pub enum Drawer<'a> {
    Nothing,
    One(u64),
    Several(&'a BTreeSet<u64>),
}

impl Drawer<'_> {
    pub fn len(&self) -> usize {
        match self {
            Drawer::Nothing => 0,
            Drawer::One(_) => 1,
            Drawer::Several(set) => set.len(),
        }
    }

    /// Calls `each` with the first `limit` fingerprints, ascending; returns their number.
    #[inline]
    pub fn first(&self, limit: usize, mut each: impl FnMut(u64)) -> usize {
        match self {
            Drawer::One(fingerprint) if limit > 0 => each(*fingerprint),
            Drawer::Several(set) => set.iter().take(limit).for_each(|&fingerprint| each(fingerprint)),
            _ => {}
        }
        self.len().min(limit)
    }

    fn contains(&self, fingerprint: u64) -> bool {
        match self {
            Drawer::Nothing => false,
            Drawer::One(held) => *held == fingerprint,
            Drawer::Several(set) => set.contains(&fingerprint),
        }
    }
}

/// What a lookup finds: fingerprints and their distances; whether a drawer has more rows than the
/// limit; rows read, and those of the largest drawer.
#[derive(Default)]
pub struct Near {
    pub bits: Vec<(u64, u32)>,
    pub truncated: bool,
    pub rows: usize,
    pub largest: usize,
}

impl Near {
    /// With each fingerprint once: near ones share several drawers.
    pub fn distinct(mut self) -> Self {
        self.bits.sort_unstable();
        self.bits.dedup();
        self
    }
}

/// The rows of some drawers: their numbers, the fingerprints, and which drawers have more rows than the limit.
#[derive(Default)]
pub struct Part {
    pub lengths: Vec<i64>,
    pub fingerprints: Vec<u64>,
    pub truncated: Vec<i64>,
}

/// The number of a prefix.
pub fn number(prefix: &[u8]) -> u64 {
    prefix.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// How fingerprints name the drawers of a table: its flag; moves of bits to the right, under a mask, and to the left;
/// and bits that a lookup flips, one at a time.
pub type Table = (u64, Vec<(u32, u64, u32)>, Vec<u64>);

/// The drawers that a lookup reads, as numbers: of each table the fingerprint's own, then those with a bit flipped.
pub fn probes(tables: &[Table], fingerprint: u64) -> Vec<u64> {
    let mut found = vec![];
    for (flag, moves, flips) in tables {
        let moved = |&(right, mask, left): &(u32, u64, u32)| (fingerprint >> right & mask) << left;
        let prefix = moves.iter().map(moved).fold(*flag, |prefix, bits| prefix | bits);
        found.push(prefix);
        found.extend(flips.iter().map(|flip| prefix ^ flip));
    }
    found
}

impl Drawers {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows, given by their keys.
    pub fn add(&mut self, keys: &[u8]) {
        for key in keys.chunks_exact(KEY_BYTES) {
            let (prefix, fingerprint) = key.split_at(PREFIX_BYTES);
            self.rows += usize::from(self.insert(number(prefix), number(fingerprint)));
        }
    }

    /// True if the row is new.
    fn insert(&mut self, prefix: u64, fingerprint: u64) -> bool {
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let place = self.place(prefix);
        match self.slots[place].held() {
            Held::Nothing => {
                self.used += 1;
                self.slots[place] = Slot::new(prefix, Held::One(fingerprint));
                true
            }
            Held::One(held) if held == fingerprint => false,
            Held::One(held) => {
                let set = self.unused.pop().unwrap_or_else(|| {
                    self.sets.push(BTreeSet::new());
                    self.sets.len() - 1
                });
                self.sets[set].extend([held, fingerprint]);
                self.slots[place] = Slot::new(prefix, Held::Several(set));
                true
            }
            Held::Several(set) => self.sets[set].insert(fingerprint),
        }
    }

    /// Removes rows, given by their keys.
    pub fn remove(&mut self, keys: &[u8]) {
        for key in keys.chunks_exact(KEY_BYTES) {
            let (prefix, fingerprint) = key.split_at(PREFIX_BYTES);
            self.rows -= usize::from(self.take(number(prefix), number(fingerprint)));
        }
    }

    /// True if the row was there.
    fn take(&mut self, prefix: u64, fingerprint: u64) -> bool {
        if !self.drawer(prefix).contains(fingerprint) {
            return false;
        }
        let place = self.place(prefix);
        if let Held::Several(set) = self.slots[place].held() {
            self.sets[set].remove(&fingerprint);
            if !self.sets[set].is_empty() {
                return true;
            }
            self.unused.push(set);
        }
        self.clear(place);
        true
    }

    /// Frees a slot. Those behind it move up to where they are looked for.
    fn clear(&mut self, mut free: usize) {
        let mask = self.slots.len() - 1;
        let mut place = free;
        loop {
            place = (place + 1) & mask;
            if self.slots[place].is_free() {
                break;
            }
            let first = self.hashed(self.slots[place].prefix());
            let is_behind = place.wrapping_sub(first) & mask >= place.wrapping_sub(free) & mask;
            if is_behind {
                self.slots[free] = self.slots[place];
                free = place;
            }
        }
        self.slots[free] = Slot::default();
        self.used -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (2 * self.slots.len()).max(LEAST);
        let slots = std::mem::replace(&mut self.slots, vec![Slot::default(); larger]);
        for slot in slots.into_iter().filter(|slot| !slot.is_free()) {
            let place = self.place(slot.prefix());
            self.slots[place] = slot;
        }
    }

    #[inline(always)]
    fn hashed(&self, prefix: u64) -> usize {
        self.key.slot(prefix) as usize & (self.slots.len() - 1)
    }

    /// Where a drawer is, or would be. There are slots, and one is free.
    #[inline(always)]
    fn place(&self, prefix: u64) -> usize {
        let mut place = self.hashed(prefix);
        while !self.slots[place].is_free() && self.slots[place].prefix() != prefix {
            place = (place + 1) & (self.slots.len() - 1);
        }
        place
    }

    /// To be called well before `drawer`.
    #[inline(always)]
    fn fetch(&self, prefix: u64) {
        if !self.slots.is_empty() {
            fetch(&self.slots, self.hashed(prefix));
        }
    }

    #[inline(always)]
    fn drawer(&self, prefix: u64) -> Drawer<'_> {
        if self.slots.is_empty() {
            return Drawer::Nothing;
        }
        match self.slots[self.place(prefix)].held() {
            Held::Nothing => Drawer::Nothing,
            Held::One(fingerprint) => Drawer::One(fingerprint),
            Held::Several(set) => Drawer::Several(&self.sets[set]),
        }
    }

    /// Which rows there are, given by their keys.
    pub fn contain(&self, keys: &[u8]) -> Vec<bool> {
        let split = |key: &[u8]| (number(&key[..PREFIX_BYTES]), number(&key[PREFIX_BYTES..]));
        let is_there = |(prefix, fingerprint)| self.drawer(prefix).contains(fingerprint);
        keys.chunks_exact(KEY_BYTES).map(split).map(is_there).collect()
    }

    /// Fingerprints within `most` bits of one, among the first `limit` rows of each drawer.
    pub fn near(&self, value: u64, prefixes: &[u64], most: u32, limit: usize) -> Near {
        prefixes.iter().for_each(|&prefix| self.fetch(prefix));
        let mut near = Near::default();
        for &prefix in prefixes {
            let drawer = self.drawer(prefix);
            let rows = drawer.first(limit, |fingerprint| {
                let bits = (fingerprint ^ value).count_ones();
                if bits <= most {
                    near.bits.push((fingerprint, bits));
                }
            });
            near.truncated |= drawer.len() > limit;
            near.rows += rows;
            near.largest = near.largest.max(rows);
        }
        near.distinct()
    }

    /// The first `limit` rows of drawers, of as many as have about `enough` rows together.
    pub fn read(&self, prefixes: &[u8], limit: usize, enough: usize) -> Part {
        const AHEAD: usize = 16; // drawers
        let mut part = Part::default();
        let prefix_at = |place: usize| prefixes.chunks_exact(PREFIX_BYTES).nth(place).map(number);
        for (place, prefix) in prefixes.chunks_exact(PREFIX_BYTES).map(number).enumerate() {
            if part.fingerprints.len() >= enough {
                break;
            }
            if let Some(ahead) = prefix_at(place + AHEAD) {
                self.fetch(ahead);
            }
            let drawer = self.drawer(prefix);
            let rows = drawer.first(limit, |fingerprint| part.fingerprints.push(fingerprint));
            part.lengths.push(rows as i64);
            if drawer.len() > limit {
                part.truncated.push(place as i64);
            }
        }
        part
    }

    /// All rows in order: prefixes and fingerprints.
    pub fn sorted(&self) -> (Vec<u64>, Vec<u64>) {
        let mut drawers: Vec<u64> = self.slots.iter().filter(|slot| !slot.is_free()).map(Slot::prefix).collect();
        drawers.sort_unstable();
        let (mut prefixes, mut fingerprints) = (vec![], vec![]);
        for prefix in drawers {
            let rows = self.drawer(prefix).first(usize::MAX, |fingerprint| fingerprints.push(fingerprint));
            prefixes.resize(prefixes.len() + rows, prefix);
        }
        (prefixes, fingerprints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::fmix64;

    fn key(prefix: u64, fingerprint: u64) -> Vec<u8> {
        [&prefix.to_be_bytes()[3..], &fingerprint.to_be_bytes()].concat()
    }

    #[test]
    fn rows_are_those_that_were_added_and_not_removed_since() {
        let mut drawers = Drawers::default();
        let mut rows = BTreeSet::new();
        for step in 0..20_000u64 {
            let (prefix, fingerprint) = (fmix64(step) % 300, fmix64(step + 1) % 7);
            let grows = step / 4_000 % 2 == 0; // by turns it grows and shrinks
            let key = key(prefix, fingerprint);
            if fmix64(step + 2) % 3 == u64::from(grows) {
                drawers.remove(&key);
                rows.remove(&(prefix, fingerprint));
            } else {
                drawers.add(&key);
                rows.insert((prefix, fingerprint));
            }
            assert_eq!(drawers.contain(&key), [rows.contains(&(prefix, fingerprint))]);
        }
        assert_eq!(drawers.rows(), rows.len());
        assert_eq!(drawers.sorted(), rows.iter().copied().unzip());
        for prefix in 0..310 {
            let held = || rows.range((prefix, 0)..(prefix + 1, 0)).map(|row| row.1);
            for limit in [0, 1, 3, usize::MAX] {
                let part = drawers.read(&key(prefix, 0)[..PREFIX_BYTES], limit, 1);
                assert_eq!(part.fingerprints, held().take(limit).collect::<Vec<_>>());
                assert_eq!(part.truncated.len(), usize::from(held().count() > limit));
                let near = drawers.near(5, &[prefix], 1, limit);
                let is_near = |&fingerprint: &u64| (fingerprint ^ 5).count_ones() <= 1;
                let found: Vec<u64> = near.bits.iter().map(|each| each.0).collect();
                assert_eq!(found, held().take(limit).filter(is_near).collect::<Vec<_>>());
                assert_eq!((near.rows, near.truncated), (part.fingerprints.len(), !part.truncated.is_empty()));
            }
        }
    }

    #[test]
    fn drawers_that_are_empty_again_take_no_room() {
        let mut drawers = Drawers::default();
        for round in 0..1_000 {
            let keys: Vec<u8> = (0..40).flat_map(|number| key(round * 20 + number / 2, number)).collect();
            drawers.add(&keys);
            drawers.remove(&keys);
        }
        assert_eq!((drawers.rows(), drawers.used), (0, 0));
        assert!(drawers.slots.len() <= 64 && drawers.sets.len() <= 20);
    }

    #[test]
    fn many_drawers_are_read_in_parts() {
        let mut drawers = Drawers::default();
        let prefixes: Vec<u8> = (0..100u64).flat_map(|prefix| prefix.to_be_bytes()[3..].to_vec()).collect();
        (0..300).for_each(|row| drawers.add(&key(row % 100, row)));
        let part = drawers.read(&prefixes, 2, 50);
        assert_eq!((part.lengths, part.fingerprints.len()), (vec![2; 25], 50));
        assert_eq!(part.truncated, (0..25).collect::<Vec<_>>());
    }
}
