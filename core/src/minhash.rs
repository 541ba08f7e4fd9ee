//! MinHash signatures (Broder: On the resemblance and containment of documents, 1997) and sketches.
//!
//! A text's shingles are the set of its features, each the upper 32 bits of its digest. Slot i of the signature is
//! fmix32(min over the shingles x of (a_i x + b_i mod 2^32)), a_i odd. The final mixing makes all bits of a slot
//! equally good: least elements are small, and the low bits of a product depend only on the low bits of x. Only
//! the low bits of each slot are kept (Li, König: b-Bit Minwise Hashing, WWW 2010). A text without shingles has a
//! sketch of zeros, which is none.

use crate::hash::{fmix32, fmix64, GOLDEN};

const AT_ONCE: usize = 32; // slots whose minima fill the registers

pub struct Permutations {
    factors: Vec<[u32; AT_ONCE]>,
    terms: Vec<[u32; AT_ONCE]>,
    slots: usize,
    bits: u32,
}

impl Permutations {
    /// Factors and terms are the halves of fmix64(GOLDEN (2^32 seed + i)) for i = 1, 2, ...; a slot keeps `bits`.
    pub fn new(slots: usize, bits: u32, seed: u64) -> Self {
        let word = |slot: usize| fmix64(GOLDEN.wrapping_mul((seed << 32).wrapping_add(slot as u64 + 1)));
        let block = |first: usize| std::array::from_fn(|slot| word(first + slot));
        let blocks: Vec<[u64; AT_ONCE]> = (0..slots).step_by(AT_ONCE).map(block).collect();
        Permutations {
            factors: blocks.iter().map(|block| block.map(|word| (word >> 32) as u32 | 1)).collect(),
            terms: blocks.iter().map(|block| block.map(|word| word as u32)).collect(),
            slots,
            bits,
        }
    }

    /// Appends the sketch of a set of shingles.
    pub fn sketch(&self, shingles: &[u32], sketch: &mut Vec<u8>) {
        let mut least = vec![0; self.factors.len() * AT_ONCE];
        if !shingles.is_empty() {
            self.minima(shingles, &mut least);
            least.iter_mut().for_each(|slot| *slot = fmix32(*slot));
        }
        pack(&least[..self.slots], self.bits, sketch);
    }

    fn minima(&self, shingles: &[u32], least: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has these instructions.
            return unsafe { minima_avx512(shingles, &self.factors, &self.terms, least) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { minima_avx2(shingles, &self.factors, &self.terms, least) };
        }
        minima(shingles, &self.factors, &self.terms, least);
    }
}

#[inline(always)]
fn minima(shingles: &[u32], factors: &[[u32; AT_ONCE]], terms: &[[u32; AT_ONCE]], least: &mut [u32]) {
    let (blocks, _) = least.as_chunks_mut::<AT_ONCE>();
    for ((a, b), block) in factors.iter().zip(terms).zip(blocks) {
        let mut minimum = [u32::MAX; AT_ONCE];
        for two in shingles.chunks(2) {
            let (one, other) = (two[0], two[two.len() - 1]); // the last of an odd number counts twice
            for slot in 0..AT_ONCE {
                let of = |shingle: u32| a[slot].wrapping_mul(shingle).wrapping_add(b[slot]);
                minimum[slot] = minimum[slot].min(of(one)).min(of(other));
            }
        }
        *block = minimum;
    }
}

/// The same loop, compiled for vectors of 256 bits.
///
/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn minima_avx2(s: &[u32], factors: &[[u32; AT_ONCE]], terms: &[[u32; AT_ONCE]], least: &mut [u32]) {
    minima(s, factors, terms, least);
}

/// The same loop, compiled for vectors of 512 bits.
///
/// # Safety
/// The processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn minima_avx512(s: &[u32], factors: &[[u32; AT_ONCE]], terms: &[[u32; AT_ONCE]], least: &mut [u32]) {
    minima(s, factors, terms, least);
}

/// Appends the low bits of all slots: less than 8 fill a byte from its upper bits, more are big-endian.
fn pack(slots: &[u32], bits: u32, sketch: &mut Vec<u8>) {
    if bits < 8 {
        let low = |&slot: &u32| slot as u8 & ((1 << bits) - 1);
        let packed = |some: &[u32]| some.iter().fold(0, |byte, slot| byte << bits | low(slot));
        sketch.extend(slots.chunks(8 / bits as usize).map(packed));
    } else {
        let bytes = bits as usize / 8;
        slots.iter().for_each(|slot| sketch.extend_from_slice(&slot.to_be_bytes()[4 - bytes..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_plain_loops_find_the_same_minima() {
        let permutations = Permutations::new(1000, 8, 7);
        for count in [1usize, 2, 31, 500] {
            let shingles: Vec<u32> = (0..count as u64).map(|each| fmix64(each) as u32).collect();
            let (mut found, mut plain) = (vec![0; 1024], vec![0; 1024]);
            permutations.minima(&shingles, &mut found);
            minima(&shingles, &permutations.factors, &permutations.terms, &mut plain);
            assert_eq!(found, plain);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has these instructions.
                unsafe { minima_avx2(&shingles, &permutations.factors, &permutations.terms, &mut found) };
                assert_eq!(found, plain);
            }
        }
    }
}
