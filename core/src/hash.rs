//! MurmurHash3 (Appleby, 2011) and its finalisers: bijections in which each bit of the input flips each bit of
//! the output with a probability of one half.

/// 2^64 / golden ratio; a start value, as the finalisers map 0 to 0.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline(always)]
pub fn fmix64(mut state: u64) -> u64 {
    state ^= state >> 33;
    state = state.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    state ^= state >> 33;
    state = state.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    state ^ (state >> 33)
}

#[inline(always)]
pub fn fmix32(mut state: u32) -> u32 {
    state ^= state >> 16;
    state = state.wrapping_mul(0x85EB_CA6B);
    state ^= state >> 13;
    state = state.wrapping_mul(0xC2B2_AE35);
    state ^ (state >> 16)
}

/// MurmurHash3 x64 128, seed 0: two words in the order of its bytes, read big-endian.
#[inline]
pub fn murmur128(data: &[u8]) -> [u64; 2] {
    let (mut one, mut other) = (0u64, 0u64);
    let (blocks, rest) = data.as_chunks::<16>();
    for block in blocks {
        let (first, second) = mixed(u128::from_le_bytes(*block));
        one = (one ^ first).rotate_left(27).wrapping_add(other);
        one = one.wrapping_mul(5).wrapping_add(0x52DC_E729);
        other = (other ^ second).rotate_left(31).wrapping_add(one);
        other = other.wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let mut block = [0u8; 16];
    block[..rest.len()].copy_from_slice(rest);
    ended((one, other), u128::from_le_bytes(block), data.len())
}

/// The same of less than 16 bytes: the first is the lowest of `bytes`, and those behind the last are 0.
#[inline(always)]
pub fn murmur128_short(bytes: u128, length: usize) -> [u64; 2] {
    ended((0, 0), bytes, length)
}

#[inline(always)]
fn mixed(block: u128) -> (u64, u64) {
    const C1: u64 = 0x87C3_7B91_1142_53D5;
    const C2: u64 = 0x4CF5_AD43_2745_937F;
    let (one, other) = (block as u64, (block >> 64) as u64);
    (one.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2), other.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1))
}

#[inline(always)]
fn ended((mut one, mut other): (u64, u64), rest: u128, length: usize) -> [u64; 2] {
    let (first, second) = mixed(rest); // zeros mix to zero
    one ^= first ^ length as u64;
    other ^= second ^ length as u64;
    one = one.wrapping_add(other);
    other = other.wrapping_add(one);
    (one, other) = (fmix64(one), fmix64(other));
    one = one.wrapping_add(other);
    other = other.wrapping_add(one);
    [one.swap_bytes(), other.swap_bytes()]
}

/// MurmurHash3 x86 32, seed 0.
pub fn murmur32(data: &[u8]) -> u32 {
    let mixed = |word: u32| word.wrapping_mul(0xCC9E_2D51).rotate_left(15).wrapping_mul(0x1B87_3593);
    let mut state = 0u32;
    for block in data.chunks(4) {
        let mut bytes = [0u8; 4];
        bytes[..block.len()].copy_from_slice(block);
        state ^= mixed(u32::from_le_bytes(bytes));
        if block.len() == 4 {
            state = state.rotate_left(13).wrapping_mul(5).wrapping_add(0xE654_6B64);
        }
    }
    fmix32(state ^ data.len() as u32)
}

/// Hash of a sequence of words: state = fmix64(state XOR word).
pub fn chain(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(GOLDEN, |state, word| fmix64(state ^ word))
}
