//! Compares sketches, pair by pair: in how many slots they differ, and whether they meet in a band first. And names the
//! drawers of their bands.
//!
//! Slots of 8 bits and more are big-endian; smaller ones fill a byte from its upper bits.

use crate::hash::{fmix64, GOLDEN};

/// Number of slots that differ, for sketches of slots alone.
pub fn mismatches(one: &[u8], other: &[u8], bits: u32) -> i64 {
    let differing = one.iter().zip(other).map(|(a, b)| a ^ b);
    match bits {
        16 | 32 => {
            let size = bits as usize / 8;
            one.chunks_exact(size).zip(other.chunks_exact(size)).filter(|(a, b)| a != b).count() as i64
        }
        8 => differing.map(|byte| u32::from(byte != 0)).sum::<u32>().into(),
        4 => differing.map(|byte| ((byte | byte >> 1 | byte >> 2 | byte >> 3) & 0x11).count_ones()).sum::<u32>().into(),
        2 => differing.map(|byte| ((byte | byte >> 1) & 0x55).count_ones()).sum::<u32>().into(),
        _ => differing.map(u8::count_ones).sum::<u32>().into(),
    }
}

/// Bands of so many slots.
pub struct Bands {
    pub rows: usize,
    pub bits: usize, // of a slot
}

impl Bands {
    /// Whether sketches agree in this band, and in none before it.
    pub fn meet_first(&self, one: &[u8], other: &[u8], band: usize) -> bool {
        self.agree(one, other, band) && !(0..band).any(|earlier| self.agree(one, other, earlier))
    }

    /// The drawer of a band: the upper half of a hash of its slots, as many in a word as fit.
    pub fn segment(&self, sketch: &[u8], band: usize) -> u32 {
        let (in_word, end) = (64 / self.bits, (band + 1) * self.rows);
        let word = |first: usize| {
            (first..end.min(first + in_word)).fold(0u64, |word, slot| word << self.bits | self.slot(sketch, slot))
        };
        let words = (band * self.rows..end).step_by(in_word).map(word);
        (words.fold(GOLDEN, |state, word| fmix64(state ^ word)) >> 32) as u32
    }

    fn slot(&self, sketch: &[u8], number: usize) -> u64 {
        let begin = number * self.bits;
        if self.bits < 8 {
            let shift = 8 - self.bits - begin % 8;
            return u64::from(sketch[begin / 8] >> shift) & ((1 << self.bits) - 1);
        }
        sketch[begin / 8..(begin + self.bits) / 8].iter().fold(0, |slot, &byte| slot << 8 | u64::from(byte))
    }

    fn agree(&self, one: &[u8], other: &[u8], band: usize) -> bool {
        let (begin, end) = (band * self.rows * self.bits, (band + 1) * self.rows * self.bits);
        let (first, last) = (begin / 8, end / 8); // whole bytes are between them, unless slots are smaller
        let differing = |place: usize, mask: u8| (one[place] ^ other[place]) & mask != 0;
        let (head, tail) = (0xFF >> (begin % 8), !(0xFF_u8 >> (end % 8)));
        if first == last {
            return !differing(first, head & tail);
        }
        !differing(first, head)
            && one[first + 1..last] == other[first + 1..last]
            && (tail == 0 || !differing(last, tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(sketch: &[u8], number: usize, bits: usize) -> Vec<u8> {
        (number * bits..(number + 1) * bits).map(|bit| sketch[bit / 8] >> (7 - bit % 8) & 1).collect()
    }

    #[test]
    fn slots_of_all_sizes_are_compared_one_by_one() {
        let one: Vec<u8> = (0..32_u32).map(|place| (place * 37 % 251) as u8).collect();
        for bits in [1, 2, 4, 8, 16, 32] {
            for changed in 0..256 {
                let mut other = one.clone();
                other[changed / 8] ^= 1 << (changed % 8);
                other[(changed * 7 % 256) / 8] ^= 3;
                let slots = 256 / bits;
                let same: Vec<bool> =
                    (0..slots).map(|number| slot(&one, number, bits) == slot(&other, number, bits)).collect();
                let count = same.iter().filter(|same| !**same).count() as i64;
                assert_eq!(mismatches(&one, &other, bits as u32), count);
                for rows in (1..8).filter(|rows| rows * 3 <= slots) {
                    let bands = Bands { rows, bits };
                    let agree: Vec<bool> = same.chunks_exact(rows).map(|band| band.iter().all(|same| *same)).collect();
                    for band in 0..agree.len() {
                        let first = agree[band] && !agree[..band].contains(&true);
                        assert_eq!(bands.meet_first(&one, &other, band), first);
                    }
                }
            }
        }
    }
}
