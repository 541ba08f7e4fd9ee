//! SimHash (Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002, section 3): a bit is
//! 1 if the features whose digests have it weigh more than the others; a tie gives 0. Sums are exact integers.

/// Fingerprint of features: digests of 64 bits and a weight each. No features give 0, which is no fingerprint.
pub fn simhash(digests: impl Iterator<Item = u64>, weights: impl Iterator<Item = u64>) -> u64 {
    let mut planes = [0u64; 64]; // plane p holds bit p of the 64 sums
    let mut total = 0u64;
    for (digest, weight) in digests.zip(weights) {
        total += weight;
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

    #[test]
    fn bits_are_those_of_more_than_half_of_the_weight() {
        assert_eq!(simhash([0b1100, 0b1010].into_iter(), [3, 3].into_iter()), 0b1000);
        assert_eq!(simhash([0b1100, 0b1010].into_iter(), [3, 4].into_iter()), 0b1010);
        assert_eq!(simhash([u64::MAX].into_iter(), [1 << 60].into_iter()), u64::MAX);
        assert_eq!(simhash([].into_iter(), [].into_iter()), 0);
    }
}
