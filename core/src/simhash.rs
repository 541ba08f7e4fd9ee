//! SimHash (Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002, section 3): a bit is
//! 1 if the features whose digests have it weigh more than the others; a tie gives 0. Sums are exact integers.

const PLANES: usize = 64;
const AT_ONCE: usize = 8; // digests of weight 1 that are summed in three planes before they are added

/// Fingerprint of features: digests of 64 bits and a weight each, or no weights if all are 1. No features give 0, which is no fingerprint.
pub fn simhash(mut digests: impl Iterator<Item = u64>, weights: &[u64]) -> u64 {
    let mut planes = [0u64; PLANES]; // plane p holds bit p of the 64 sums
    let total = if weights.is_empty() { add_all(&mut planes, &mut digests) } else { weights.iter().sum() };
    for (&weight, digest) in weights.iter().zip(digests) {
        let mut left = weight;
        while left != 0 {
            add(&mut planes[left.trailing_zeros() as usize..], digest);
            left &= left - 1;
        }
    }
    let half = total / 2; // 2 sum > total is sum > half
    let (mut more, mut equal) = (0u64, !0u64);
    for (number, plane) in planes.iter().enumerate().rev() {
        let bit = (half >> number & 1).wrapping_neg();
        more |= equal & plane & !bit;
        equal &= !(plane ^ bit);
    }
    more
}

/// Adds digests of weight 1 (Harley and Seal's counting of bits), and returns their number.
fn add_all(planes: &mut [u64; PLANES], digests: &mut impl Iterator<Item = u64>) -> u64 {
    let mut count = 0;
    let (mut ones, mut twos, mut fours) = (0, 0, 0);
    loop {
        let mut some = [0; AT_ONCE];
        let found = some.iter_mut().zip(digests.by_ref()).map(|(to, digest)| *to = digest).count();
        let (two, other_two) = (sum(&mut ones, some[0], some[1]), sum(&mut ones, some[2], some[3]));
        let four = sum(&mut twos, two, other_two);
        let (two, other_two) = (sum(&mut ones, some[4], some[5]), sum(&mut ones, some[6], some[7]));
        let other_four = sum(&mut twos, two, other_two);
        let eight = sum(&mut fours, four, other_four);
        add(&mut planes[3..], eight);
        count += found as u64;
        if found < AT_ONCE {
            break;
        }
    }
    [ones, twos, fours].into_iter().enumerate().for_each(|(plane, bits)| add(&mut planes[plane..], bits));
    count
}

/// Adds two words to a plane, and returns the carries.
#[inline(always)]
fn sum(plane: &mut u64, one: u64, other: u64) -> u64 {
    let both = one ^ other;
    let carry = one & other | *plane & both;
    *plane ^= both;
    carry
}

#[inline(always)]
fn add(planes: &mut [u64], digest: u64) {
    let mut carry = digest;
    for plane in planes {
        (*plane, carry) = (*plane ^ carry, *plane & carry);
        if carry == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::simhash;
    use crate::hash::fmix64;

    #[test]
    fn bits_are_those_of_more_than_half_of_the_weight() {
        assert_eq!(simhash([0b1100, 0b1010].into_iter(), &[3, 3]), 0b1000);
        assert_eq!(simhash([0b1100, 0b1010].into_iter(), &[3, 4]), 0b1010);
        assert_eq!(simhash([u64::MAX].into_iter(), &[1 << 60]), u64::MAX);
        assert_eq!(simhash([].into_iter(), &[]), 0);
    }

    #[test]
    fn no_weights_are_weights_of_one() {
        for count in 0..100 {
            let digests = || (0..count).map(fmix64);
            assert_eq!(simhash(digests(), &[]), simhash(digests(), &vec![1; count as usize]));
        }
    }
}
