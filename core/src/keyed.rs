//! Sets of hashes whose slots depend on a random key of the process, so that a text made to collide still takes
//! linear time. Entries are compared by their 64 bits: no result depends on the key.

use crate::table::fetch;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

const FREE: u32 = 0;

#[derive(Clone, Copy)]
pub struct Key {
    add: u64,
    factor: u64,
}

/// The key of the process.
impl Default for Key {
    fn default() -> Self {
        static KEY: OnceLock<Key> = OnceLock::new();
        *KEY.get_or_init(Key::random)
    }
}

impl Key {
    pub fn random() -> Self {
        Key { add: RandomState::new().hash_one(1), factor: RandomState::new().hash_one(2) | 1 }
    }

    #[inline(always)]
    pub fn slot(self, hash: u64) -> u64 {
        let product = (hash ^ self.add) as u128 * self.factor as u128;
        product as u64 ^ (product >> 64) as u64
    }
}

#[inline(always)]
fn slot(hash: u64) -> u64 {
    Key::default().slot(hash)
}

/// Numbers hashes from 0 on, in the order in which they come.
#[derive(Default)]
pub struct Numbering {
    slots: Vec<u32>, // number + 1, or FREE
    hashes: Vec<u64>,
}

impl Numbering {
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.slots.clear();
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// To be called well before `number`.
    #[inline(always)]
    pub fn fetch(&self, hash: u64) {
        fetch(&self.slots, slot(hash) as usize & self.slots.len().saturating_sub(1));
    }

    /// The number of a hash, and whether it is new.
    #[inline(always)]
    pub fn number(&mut self, hash: u64) -> (usize, bool) {
        if 2 * (self.hashes.len() + 1) > self.slots.len() {
            self.grow();
        }
        let place = self.place(hash);
        if self.slots[place] != FREE {
            return (self.slots[place] as usize - 1, false);
        }
        self.hashes.push(hash);
        self.slots[place] = self.hashes.len() as u32;
        (self.hashes.len() - 1, true)
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = slot(hash) as usize & mask;
        while self.slots[place] != FREE && self.hashes[self.slots[place] as usize - 1] != hash {
            place = (place + 1) & mask;
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let size = (4 * self.slots.len()).max(256);
        self.slots.clear();
        self.slots.resize(size, FREE);
        for number in 0..self.hashes.len() {
            let place = self.place(self.hashes[number]);
            self.slots[place] = number as u32 + 1;
        }
    }
}

/// Values by hash.
pub struct Values(Vec<(u64, u64)>);

impl Values {
    const NONE: u64 = u64::MAX; // no value

    pub fn new(pairs: impl ExactSizeIterator<Item = (u64, u64)>) -> Self {
        let mut values = Values(vec![(0, Self::NONE); (2 * pairs.len() + 1).next_power_of_two()]);
        for (hash, value) in pairs {
            let place = values.place(hash);
            values.0[place] = (hash, value);
        }
        values
    }

    pub fn get(&self, hash: u64) -> Option<u64> {
        Some(self.0[self.place(hash)].1).filter(|&value| value != Self::NONE)
    }

    /// To be called well before `get`.
    #[inline(always)]
    pub fn fetch(&self, hash: u64) {
        fetch(&self.0, self.first(hash));
    }

    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        slot(hash) as usize & (self.0.len() - 1)
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        let mut place = self.first(hash);
        while self.0[place].1 != Self::NONE && self.0[place].0 != hash {
            place = (place + 1) & (self.0.len() - 1);
        }
        place
    }
}

/// Hashes the keys of maps and sets, which are hashes themselves.
#[derive(Clone, Copy, Default)]
pub struct Keyed(u64);

impl BuildHasher for Keyed {
    type Hasher = Keyed;

    fn build_hasher(&self) -> Keyed {
        Keyed(0)
    }
}

impl Hasher for Keyed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are of 64 bits")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = slot(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::Numbering;
    use std::time::Instant;

    fn seconds(hash: impl Fn(u64) -> u64) -> f64 {
        let mut numbering = Numbering::default();
        let start = Instant::now();
        for number in 0..100_000 {
            assert_eq!(numbering.number(hash(number)), (number as usize, true));
        }
        start.elapsed().as_secs_f64()
    }

    #[test]
    fn hashes_made_to_meet_take_no_longer() {
        assert!(seconds(|number| number << 44) < 20.0 * seconds(crate::hash::fmix64));
        assert!(seconds(|number| number << 20) < 20.0 * seconds(crate::hash::fmix64));
    }
}
