//! Growing shingles, the sets by which texts are compared. At each place of a text, from its beginning, look at the runs
//! of 3, 5, 8, 13, 21 and 34 characters that start there. Skip the place if its 34 characters have occurred at an earlier
//! place. Otherwise add the shortest run that is not in the set yet.
//!
//! So the set grows with the text, where that of all triples is soon full, and texts of one language, table or alphabet
//! do not become similar by being long. Where no triple occurs twice it is the set of triples. Its nearest relative is the
//! Lempel-Ziv Jaccard distance (Raff, Nicholas: An Alternative to NCD for Large Sequences, KDD 2017), whose phrases lie
//! end to end, so that an edit moves all that follow.
//!
//! Taken length by length, which gives the same set. The first place with each triple adds it. (Its 34 characters cannot
//! have occurred before.) Of the other places those are skipped whose 34 characters have; the rest goes on to runs of 5,
//! 8, 13 and 21. What is left adds its 34 characters. These can only have occurred before if all triples in them have, so
//! the set of 34 characters is not begun before that happens.
//!
//! Runs are told apart by their length and 64 bits. No result depends on the slots of the sets, which the process's key
//! decides.

use crate::hash::{fmix64, GOLDEN};
use crate::keyed::Key;
use crate::table::{fetch, with_room};

pub const SHORTEST: usize = 3;
const LONGEST: usize = 34;
const TRIPLES: usize = LONGEST - SHORTEST + 1; // in a longest run

const AT_ONCE: usize = 2048; // places taken through all lengths: their arrays stay in the processor's cache
const BLOCK: usize = 64; // places whose slots are fetched before they are looked at
const SMALL: usize = 1 << 13; // slots that stay in the cache
const FREE: u64 = 0;

/// Shingles of one text, in no particular order. digests: 64 bits each; places: where they start.
#[derive(Default)]
pub struct Growing {
    pub digests: Vec<u64>,
    pub places: Vec<u32>,
    pub lengths: Vec<u8>,
    sets: [Set; 5], // of runs of 3, 5, 8, 13 and 21 characters
    longest: Set,
    hashed: usize, // places whose 34 characters are in `longest`
    ahead: usize,  // how many times as many places the text has as were looked at
    left: Places,
    hashes: Vec<u64>, // of longest runs
    sums: [Vec<u64>; 2],
    is_new: Vec<bool>, // of states or hashes that were just added to a set
}

/// Places of a text that are left, and the states of their runs.
#[derive(Default)]
struct Places {
    places: Vec<u32>,
    states: Vec<u64>,
}

/// A set of states.
#[derive(Default)]
struct Set {
    slots: Vec<u64>,
    size: usize, // of the slots that are in use; 0 before the first state
    used: usize,
    key: Key,
}

/// Virtual machines may hide these, also where they show wide registers.
#[cfg(target_arch = "x86_64")]
fn counts_bits() -> bool {
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

impl Growing {
    /// Finds the shingles of a text.
    pub fn read(&mut self, points: &[u32]) {
        #[cfg(target_arch = "x86_64")]
        if counts_bits() {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                // SAFETY: the processor has all instructions that the function names.
                return unsafe { self.read_avx512(points) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return unsafe { self.read_avx2(points) };
            }
        }
        self.read_any(points);
    }

    /// # Safety
    /// The processor must have these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn read_avx512(&mut self, points: &[u32]) {
        self.read_any(points);
    }

    /// # Safety
    /// The processor must have these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn read_avx2(&mut self, points: &[u32]) {
        self.read_any(points);
    }

    #[inline(always)]
    fn read_any(&mut self, points: &[u32]) {
        self.clear();
        let ends = (points.len() + 1).saturating_sub(SHORTEST);
        for begin in (0..ends).step_by(AT_ONCE) {
            let end = ends.min(begin + AT_ONCE);
            self.left.places.clear();
            self.left.places.extend(begin as u32..end as u32);
            self.left.states.resize(end - begin, 0);
            self.ahead = ends / end;
            triples(&points[begin..], &mut self.left.states);
            self.add::<0, SHORTEST>();
            if self.hashed > 0 || self.left.may_hold_copies(end, ends) {
                self.leave_copies(points, begin, end);
            }
            self.grow::<1, SHORTEST, 5>(points);
            self.grow::<2, 5, 8>(points);
            self.grow::<3, 8, 13>(points);
            self.grow::<4, 13, 21>(points);
            self.left.lengthen::<21, LONGEST>(points);
            self.digests.extend_from_slice(&self.left.states);
            self.places.extend_from_slice(&self.left.places);
            self.lengths.resize(self.digests.len(), LONGEST as u8);
        }
    }

    fn clear(&mut self) {
        self.digests.clear();
        self.places.clear();
        self.lengths.clear();
        self.sets.iter_mut().for_each(|set| set.size = 0);
        self.longest.size = 0;
        self.hashed = 0;
    }

    /// Lengthens the runs of the places that are left, and takes those that are new.
    #[inline(always)]
    fn grow<const SET: usize, const FROM: usize, const TO: usize>(&mut self, points: &[u32]) {
        self.left.lengthen::<FROM, TO>(points);
        self.add::<SET, TO>();
    }

    #[inline(always)]
    fn add<const SET: usize, const LENGTH: usize>(&mut self) {
        let (taken, left) = (self.digests.len(), self.left.places.len());
        self.is_new.resize(left, true);
        self.sets[SET].add(&self.left.states, &mut self.is_new, self.ahead);
        self.digests.resize(taken + left, 0);
        self.places.resize(taken + left, 0);
        let new = self.left.part(&self.is_new, &mut self.digests[taken..], &mut self.places[taken..]);
        self.digests.truncate(taken + new);
        self.places.truncate(taken + new);
        self.lengths.resize(taken + new, LENGTH as u8);
    }

    /// Of the places from `begin` to `end` leaves out those whose 34 characters have occurred before.
    #[inline(always)]
    fn leave_copies(&mut self, points: &[u32], begin: usize, end: usize) {
        let until = end.min((points.len() + 1).saturating_sub(LONGEST));
        while self.hashed < until {
            let count = AT_ONCE.min(until - self.hashed);
            self.hash_longest(&points[self.hashed..], count);
            self.is_new.resize(count, true);
            self.longest.add(&self.hashes, &mut self.is_new, self.ahead);
            self.hashed += count;
        }
        let noted = until.saturating_sub(begin); // places; behind them are no 34 characters
        self.left.retain(|place| place as usize - begin >= noted || self.is_new[place as usize - begin]);
    }

    /// Hashes of the 34 characters from each of `count` places on: sums of twice as many triples in each step.
    #[inline(always)]
    fn hash_longest(&mut self, points: &[u32], count: usize) {
        let [one, other] = &mut self.sums;
        one.resize(AT_ONCE + TRIPLES - 1, 0);
        other.resize(AT_ONCE + TRIPLES - 1, 0);
        self.hashes.resize(count, 0);
        triples(points, &mut one[..count + 31]);
        join(&mut other[..count + 28], one, 3, 0xD6E8_FEB8_6659_FD93); // 6 characters
        join(&mut one[..count + 22], other, 6, 0xA076_1D64_78BD_642F); // 12
        join(&mut other[..count + 10], one, 12, 0xE703_7ED1_A0B4_28DB); // 24
                                                                        // 24 and the last 12, of which two are in both.
        let (first, last) = (&other[..count], &one[22..]);
        for ((hash, &first), &last) in self.hashes.iter_mut().zip(first).zip(last) {
            *hash = first.wrapping_mul(0x8EBC_6AF0_9C88_C6E3).wrapping_add(last);
        }
    }
}

/// States of the triples from each place on: their digests.
#[inline(always)]
fn triples(points: &[u32], states: &mut [u64]) {
    let begin = GOLDEN.wrapping_mul(2 * SHORTEST as u64 + 1);
    let count = states.len();
    let (a, b, c) = (&points[..count], &points[1..1 + count], &points[2..2 + count]);
    for (((state, &a), &b), &c) in states.iter_mut().zip(a).zip(b).zip(c) {
        *state = fmix64(begin ^ ((a as u64) << 42 | (b as u64) << 21 | c as u64));
    }
}

#[inline(always)]
fn join(to: &mut [u64], of: &[u64], by: usize, factor: u64) {
    for ((to, &one), &other) in to.iter_mut().zip(of).zip(&of[by..]) {
        *to = one.wrapping_mul(factor).wrapping_add(other);
    }
}

impl Places {
    /// True if 34 characters from one of the places on may have occurred before, as all triples in them have. The
    /// places end at `end`, those of the text at `of_text`.
    #[inline(always)]
    fn may_hold_copies(&self, end: usize, of_text: usize) -> bool {
        let goes_on = end < of_text && self.places.last() == Some(&(end as u32 - 1));
        let in_a_row = |some: &[u32]| some[TRIPLES - 1] - some[0] == TRIPLES as u32 - 1;
        goes_on || self.places.windows(TRIPLES).any(in_a_row)
    }

    /// Lengthens the runs from FROM to TO characters: mixes in three at a time. Drops those at the text's end.
    #[inline(always)]
    fn lengthen<const FROM: usize, const TO: usize>(&mut self, points: &[u32]) {
        let fit = self.places.iter().rev().position(|&place| place as usize + TO <= points.len());
        let left = fit.map_or(0, |dropped| self.places.len() - dropped);
        self.places.truncate(left);
        self.states.truncate(left);
        for (state, &place) in self.states.iter_mut().zip(&self.places) {
            let more = &points[place as usize + FROM..place as usize + TO];
            let packed = |three: &[u32]| three.iter().fold(0, |packed, &point| packed << 21 | point as u64);
            *state = more.chunks(3).fold(*state, |state, three| fmix64(state ^ packed(three)));
        }
    }

    /// Moves the places that are new to `states` and `places`; returns their number. Without a branch that depends on
    /// the text: what is new and what is left are both written.
    #[inline(always)]
    fn part(&mut self, is_new: &[bool], states: &mut [u64], places: &mut [u32]) -> usize {
        let (mut new, mut left) = (0, 0);
        for (at, &is_new) in is_new.iter().enumerate() {
            let (state, place) = (self.states[at], self.places[at]);
            (states[new], places[new]) = (state, place);
            new += is_new as usize;
            (self.states[left], self.places[left]) = (state, place);
            left += !is_new as usize;
        }
        self.states.truncate(left);
        self.places.truncate(left);
        new
    }

    #[inline(always)]
    fn retain(&mut self, keeps: impl Fn(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.places.len() {
            let (place, state) = (self.places[at], self.states[at]);
            (self.places[kept], self.states[kept]) = (place, state);
            kept += keeps(place) as usize;
        }
        self.places.truncate(kept);
        self.states.truncate(kept);
    }
}

impl Set {
    /// Adds states, and says of each whether it is new. ahead: how many times as many there may be in the end.
    #[inline(always)]
    fn add(&mut self, states: &[u64], is_new: &mut [bool], ahead: usize) {
        let mut slots = [0; BLOCK];
        for (block, is_new) in states.chunks(BLOCK).zip(is_new.chunks_mut(BLOCK)) {
            self.make_room(states.len(), ahead);
            let table = &mut self.slots[..self.size];
            let mask = table.len() - 1;
            for (slot, &state) in slots.iter_mut().zip(block) {
                *slot = self.key.slot(tag(state)) as usize & mask;
            }
            if table.len() > SMALL {
                slots.iter().for_each(|&slot| fetch(table, slot & mask));
            }
            for ((is_new, &slot), &state) in is_new.iter_mut().zip(&slots).zip(block) {
                *is_new = take(table, slot, tag(state));
            }
            self.used += is_new.iter().filter(|&&is_new| is_new).count();
        }
    }

    /// Makes room for a block. count: states that are coming.
    #[inline(always)]
    fn make_room(&mut self, count: usize, ahead: usize) {
        if self.size == 0 {
            self.size = (4 * count.max(BLOCK)).next_power_of_two().min(SMALL);
            if self.slots.len() < self.size {
                self.slots.resize(self.size, FREE);
            }
            self.slots[..self.size].fill(FREE);
            self.used = 0;
        }
        if 3 * (self.used + BLOCK) > 2 * self.size {
            self.enlarge(ahead);
        }
    }

    #[cold]
    #[inline(never)]
    fn enlarge(&mut self, ahead: usize) {
        let states: Vec<u64> = self.slots[..self.size].iter().copied().filter(|&state| state != FREE).collect();
        // A table that does not fit into the cache is made as large as it will be if the text goes on like this, as it
        // takes long to fill another one.
        let in_the_end = (self.used * ahead / 2 * 3).next_power_of_two();
        self.size *= if self.size < 4 * SMALL { 4 } else { (in_the_end / self.size).clamp(2, 8) };
        self.slots = Vec::new(); // before another one is made
        self.slots = with_room(self.size);
        self.slots.resize(self.size, FREE);
        for block in states.chunks(BLOCK) {
            let slot = |state| self.key.slot(state) as usize & (self.size - 1);
            block.iter().for_each(|&state| fetch(&self.slots, slot(state)));
            for &state in block {
                take(&mut self.slots, slot(state), state);
            }
        }
    }
}

/// Takes a slot for a state, from `slot` on; false if it is there already. One branch ends the search, whether it is or
/// not: two would be predicted wrongly half of the time.
#[inline(always)]
fn take(table: &mut [u64], mut slot: usize, tag: u64) -> bool {
    let mask = table.len() - 1;
    while table[slot & mask].min(table[slot & mask] ^ tag) != 0 {
        slot += 1;
    }
    let is_new = table[slot & mask] == FREE;
    table[slot & mask] = tag;
    is_new
}

/// A state as it stands in a slot.
#[inline(always)]
fn tag(state: u64) -> u64 {
    state + (state == FREE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<Vec<u32>> {
        let random = |number: u64, of: u64| (fmix64(number) % of) as u32;
        let some = |of: u64, count: u64| (1..=count).map(|number| random(number, of)).collect::<Vec<_>>();
        let mut found = vec![some(2, 20_000), some(4, 20_000), some(1 << 16, 10_000), vec![7; 10_000]];
        found.extend([some(100, 300).repeat(2), some(100, 50).repeat(200), some(30, 2100).repeat(3)]);
        found.extend((0..40).map(|length| some(50, length)));
        found
    }

    fn all(found: &Growing) -> Vec<(u32, u8, u64)> {
        let each = found.places.iter().zip(&found.lengths).zip(&found.digests);
        let mut all: Vec<_> = each.map(|((&place, &length), &digest)| (place, length, digest)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn neither_keys_nor_vectors_nor_earlier_texts_change_what_is_found() {
        let mut again = Growing::default();
        for text in texts() {
            again.read(&text);
            let mut plain = Growing::default();
            plain.sets.iter_mut().chain([&mut plain.longest]).for_each(|set| set.key = Key::random());
            plain.read_any(&text);
            assert_eq!(all(&again), all(&plain));
        }
    }

    #[test]
    fn the_shortest_run_that_is_new_is_taken_and_nothing_at_a_copy() {
        for text in texts() {
            let mut found = Growing::default();
            found.read(&text);
            let (mut taken, mut occurred) = (std::collections::HashSet::new(), std::collections::HashSet::new());
            let mut expected = vec![];
            for start in 0..text.len() {
                let run = |length: usize| text.get(start..start + length);
                if run(LONGEST).is_some_and(|longest| !occurred.insert(longest)) {
                    continue;
                }
                let lengths = [SHORTEST, 5, 8, 13, 21, LONGEST];
                let new = lengths.into_iter().find(|&length| run(length).is_some_and(|run| taken.insert(run)));
                expected.extend(new.map(|length| (start as u32, length as u8)));
            }
            assert_eq!(all(&found).into_iter().map(|each| (each.0, each.1)).collect::<Vec<_>>(), expected);
        }
    }
}
