//! Groups documents by pairs that may match: stars around leaders, or chains.
//!
//! - Documents are candidates of each other if they have the same fingerprint, near ones, or fingerprints of one crowd.
//!   Pairs of fingerprints are kept, not of documents, which would not fit if very many of these share a fingerprint.
//! - A crowd is a large drawer: n near fingerprints have n * n / 2 pairs. These are not kept, but made for a few
//!   documents at a time, and may not be near.
//! - In a star, the first document that nobody leads leads all its matches that nobody leads, and so on: pairs are made
//!   of documents that lead themselves. In chains, all that match are connected: pairs are made of those that are not yet.
//! - A step makes pairs of documents in their order. The caller says which match before it takes the next step.
//! - Where texts are compared, n near ones of which none matches another would take n * n / 2 comparisons. So a document
//!   that was compared with `TRIES` in vain is compared further only with nearer ones than these: at most as many as
//!   there are distances. Pairs count in their order, so that the groups do not depend on the size of steps.
//! - For the same reason a document is in a given number of pairs with earlier ones, at most. They count when they are
//!   made, so groups may depend on the size of steps where there are more.
//! - What no later document can be paired with is taken out of crowds and lists: so n documents take time by n.

use std::collections::HashMap;

const TRIES: u8 = 100;
const DOCUMENTS: usize = 1 << 20; // of a step, at most
const PART: usize = 1 << 16; // pairs
const NONE: u32 = u32::MAX;

/// Pairs of documents: the first and the second of each, and whether its fingerprints may not be near.
#[derive(Default)]
pub struct Pairs {
    pub first: Vec<i64>,
    pub second: Vec<i64>,
    pub is_unsure: Vec<bool>,
}

/// A pair of documents whose texts were compared, or were not, as the later one was not admitted.
pub struct Compared {
    pub first: u32,
    pub second: u32,
    pub distance: u16,
    pub is_match: bool,
}

/// What a pair does: nothing, as its documents are led or connected already, or the later one was compared with enough
/// others; it was compared in vain; or it joins groups.
pub const IDLE: u8 = 0;
pub const IN_VAIN: u8 = 1;
pub const JOINED: u8 = 2;

/// The comparisons of a document in vain.
#[derive(Clone, Copy)]
struct Tries {
    count: u8, // up to TRIES
    nearest: u16,
    is_truncated: bool, // whether it was not compared with a candidate for this reason
}

impl Tries {
    const NONE: Self = Tries { count: 0, nearest: u16::MAX, is_truncated: false };

    fn admit(&self, distance: u16) -> bool {
        self.count < TRIES || distance < self.nearest
    }
}

pub struct Candidates {
    is_chain: bool,
    leaders: Vec<u32>, // of documents; in chains another document before it, or itself
    tries: Vec<Tries>, // of documents, once one was compared in vain
    most: u16,
    looks: Vec<u16>, // of documents, if there are more than `most`: pairs with earlier ones, `most` + 1 if there were more
    shared: Option<Shared>,
    added: Vec<Vec<[u32; 2]>>, // pairs of near fingerprints in parts, each of which is freed when it is in lists
    near: Lists,               // fingerprints near each
    crowds: Vec<Vec<u32>>,
    crowds_of: Lists,
    next: usize, // document
}

/// Fingerprints of documents. Without it, each document has another one, and its number.
struct Shared {
    of: Vec<u32>,
    first: Vec<u32>, // document with each fingerprint
    next: Vec<u32>,  // of each document, the next one with its fingerprint, or NONE
}

impl Shared {
    fn new(of: Vec<u32>) -> Self {
        let count = of.iter().max().map_or(0, |&last| last as usize + 1);
        let (mut first, mut next) = (vec![NONE; count], vec![NONE; of.len()]);
        for (document, &fingerprint) in of.iter().enumerate().rev() {
            next[document] = std::mem::replace(&mut first[fingerprint as usize], document as u32);
        }
        Shared { of, first, next }
    }
}

/// Looks for the candidates of a document among those after it.
struct Search<'a> {
    document: u32,
    own: u32, // its leader
    is_chain: bool,
    leaders: &'a mut [u32],
    shared: Option<&'a mut Shared>,
    most: u16,
    looks: &'a [u16],
    found: Vec<(u32, bool)>, // candidates, and whether their fingerprints may not be near
    looked_at: usize,
}

/// What is left of the documents with a fingerprint: whether any may be paired with later ones than the one that looks,
/// and whether all of those are connected to it.
struct Left {
    is_any: bool,
    is_connected: bool,
}

impl Search<'_> {
    /// Adds the documents with a fingerprint.
    fn add(&mut self, fingerprint: u32, is_unsure: bool) -> Left {
        let first = self.shared.as_ref().map_or(fingerprint, |shared| shared.first[fingerprint as usize]);
        let mut left = Left { is_any: false, is_connected: true };
        let (mut before, mut other) = (NONE, first);
        while other != NONE {
            self.looked_at += 1;
            let is_free = match self.is_chain {
                true => leader(self.leaders, other) != self.own,
                false => self.leaders[other as usize] == other,
            };
            let next = self.shared.as_ref().map_or(NONE, |shared| shared.next[other as usize]);
            let is_late = other > self.document;
            if is_late && is_free {
                self.found.push((other, is_unsure));
            }
            if is_late && (is_free || self.is_chain) && self.looks.get(other as usize).is_none_or(|&n| n <= self.most) {
                left = Left { is_any: true, is_connected: left.is_connected && !is_free };
                before = other;
            } else if let Some(shared) = &mut self.shared {
                let link = if before == NONE {
                    &mut shared.first[fingerprint as usize]
                } else {
                    &mut shared.next[before as usize]
                };
                *link = next;
            }
            other = next;
        }
        left
    }
}

/// Lists of numbers, one after the other.
#[derive(Default)]
struct Lists {
    starts: Vec<u64>,
    values: Vec<u32>,
}

impl Lists {
    /// Lists of these lengths, behind which is a 0. `put` fills them.
    fn new(mut lengths: Vec<u64>) -> Self {
        let mut end = 0;
        for length in &mut lengths {
            end += *length;
            *length = end;
        }
        Lists { starts: lengths, values: vec![0; end as usize] }
    }

    fn put(&mut self, list: u32, value: u32) {
        let start = &mut self.starts[list as usize];
        *start -= 1;
        self.values[*start as usize] = value;
    }

    fn get(&self, list: u32) -> &[u32] {
        let list = list as usize;
        self.starts.get(list..list + 2).map_or(&[], |ends| &self.values[ends[0] as usize..ends[1] as usize])
    }
}

impl Candidates {
    /// fingerprints: their numbers, by document; None if each has another one. most: pairs of a document with earlier ones.
    pub fn new(documents: usize, fingerprints: Option<Vec<u32>>, is_chain: bool, most: u16) -> Self {
        Candidates {
            is_chain,
            leaders: (0..documents as u32).collect(),
            tries: vec![],
            most,
            looks: vec![],
            shared: fingerprints.map(Shared::new),
            added: vec![],
            near: Lists::default(),
            crowds: vec![],
            crowds_of: Lists::default(),
            next: 0,
        }
    }

    /// Adds pairs of near fingerprints, before the first step.
    pub fn add(&mut self, pairs: impl Iterator<Item = [u32; 2]>) {
        for pair in pairs {
            if self.added.last().is_none_or(|part| part.len() == PART) {
                self.added.push(Vec::with_capacity(PART));
            }
            self.added.last_mut().expect("a part").push(pair);
        }
    }

    /// Adds fingerprints of which many are near each other, before the first step.
    pub fn add_crowd(&mut self, members: Vec<u32>) {
        self.crowds.push(members);
    }

    /// Further pairs, of about `at_once` candidates, and of one document at least; None if there are no more.
    pub fn step(&mut self, at_once: usize) -> Option<Pairs> {
        if self.next == 0 {
            self.list();
        }
        let (mut pairs, mut looked_at, mut last) = (Pairs::default(), 0, 0);
        let end = self.leaders.len().min(self.next + DOCUMENTS);
        let is_over = self.next == end;
        while self.next < end && looked_at + last <= at_once {
            last = self.pair(self.next as u32, &mut pairs);
            looked_at += last;
            self.next += 1;
        }
        (!is_over).then_some(pairs)
    }

    /// Matches pairs of documents, the first before the second: in stars the first leads the second, if nobody leads
    /// either. Returns for each whether it does, or connects what was not connected.
    pub fn match_pairs(&mut self, pairs: impl Iterator<Item = [u32; 2]>) -> Vec<bool> {
        pairs.map(|[first, second]| self.separate(first, second).map(|ends| self.join(ends)).is_some()).collect()
    }

    /// Whether the distances of a step's pairs count, given by their second documents, before their texts are compared:
    /// those of documents that may have been compared with `TRIES` in vain by then.
    pub fn are_limited(&self, seconds: impl Iterator<Item = u32>) -> Vec<bool> {
        let mut counts = HashMap::new();
        let is_limited = |second| {
            let count = counts.entry(second).or_insert_with(|| usize::from(self.tries(second).count));
            *count += 1;
            *count > usize::from(TRIES)
        };
        seconds.map(is_limited).collect()
    }

    /// Whether the second documents of pairs are compared with the first ones, after the steps before.
    pub fn admit(&self, pairs: impl Iterator<Item = (u32, u16)>) -> Vec<bool> {
        pairs.map(|(second, distance)| self.tries(second).admit(distance)).collect()
    }

    /// Matches all pairs of a step, with those that were not admitted. Returns what each does.
    pub fn match_compared(&mut self, pairs: impl Iterator<Item = Compared>) -> Vec<u8> {
        pairs.map(|pair| self.outcome(pair)).collect()
    }

    fn outcome(&mut self, pair: Compared) -> u8 {
        let Some(ends) = self.separate(pair.first, pair.second) else { return IDLE };
        let mut tries = self.tries(pair.second);
        let is_admitted = tries.admit(pair.distance);
        if is_admitted && pair.is_match {
            self.join(ends);
            return JOINED;
        }
        if is_admitted {
            tries.count = TRIES.min(tries.count + 1);
            tries.nearest = tries.nearest.min(pair.distance);
        } else {
            tries.is_truncated = true;
        }
        self.tries.resize(self.leaders.len(), Tries::NONE);
        self.tries[pair.second as usize] = tries;
        if is_admitted {
            IN_VAIN
        } else {
            IDLE
        }
    }

    fn tries(&self, document: u32) -> Tries {
        self.tries.get(document as usize).copied().unwrap_or(Tries::NONE)
    }

    /// Whether each document was not compared with all its candidates.
    pub fn truncated(&self) -> Vec<bool> {
        let is_left_out = |document| self.looks.get(document).is_some_and(|&looks| looks > self.most);
        (0..self.leaders.len())
            .map(|document| self.tries(document as u32).is_truncated || is_left_out(document))
            .collect()
    }

    /// The leaders of two documents that can be joined: in chains if they are not connected, in stars if nobody leads
    /// either.
    fn separate(&mut self, first: u32, second: u32) -> Option<[u32; 2]> {
        if self.is_chain {
            let ends = [leader(&mut self.leaders, first), leader(&mut self.leaders, second)];
            return (ends[0] != ends[1]).then_some(ends);
        }
        let is_free = |document: u32| self.leaders[document as usize] == document;
        (first != second && is_free(first) && is_free(second)).then_some([first, second])
    }

    fn join(&mut self, [one, other]: [u32; 2]) {
        self.leaders[one.max(other) as usize] = one.min(other);
    }

    /// Gives memory back after the last step, and shortens chains.
    pub fn finish(&mut self) {
        (self.near, self.crowds_of) = Default::default();
        self.crowds.clear();
        if self.is_chain {
            for document in 0..self.leaders.len() {
                self.leaders[document] = leader(&mut self.leaders, document as u32);
            }
        }
    }

    /// The leader of each document; in chains, once they are finished, the first of those that are connected to it.
    pub fn leaders(&self) -> &[u32] {
        &self.leaders
    }

    /// Makes lists of what was added.
    fn list(&mut self) {
        if self.leaders.len() > self.most.into() {
            self.looks.resize(self.leaders.len(), 0);
        }
        let count = self.shared.as_ref().map_or(self.leaders.len(), |shared| shared.first.len());
        let mut lengths = vec![0; count + 1];
        // A document of the later fingerprint may come before one of the earlier.
        let both = self.shared.is_some();
        for &[one, other] in self.added.iter().flatten() {
            lengths[one as usize] += 1;
            lengths[other as usize] += u64::from(both);
        }
        self.near = Lists::new(lengths);
        while let Some(part) = self.added.pop() {
            for [one, other] in part {
                self.near.put(one, other);
                if both {
                    self.near.put(other, one);
                }
            }
        }
        if self.crowds.is_empty() {
            return;
        }
        let mut lengths = vec![0; count + 1];
        self.crowds.iter().flatten().for_each(|&member| lengths[member as usize] += 1);
        self.crowds_of = Lists::new(lengths);
        for (number, crowd) in self.crowds.iter().enumerate() {
            crowd.iter().for_each(|&member| self.crowds_of.put(member, number as u32));
        }
    }

    /// Adds the pairs of a document and those of its candidates that come after it. Returns the number of candidates.
    fn pair(&mut self, document: u32, pairs: &mut Pairs) -> usize {
        let own = if self.is_chain { leader(&mut self.leaders, document) } else { document };
        if self.leaders[own as usize] != own {
            return 0;
        }
        let fingerprint = self.shared.as_ref().map_or(document, |shared| shared.of[document as usize]);
        let (is_chain, most) = (self.is_chain, self.most);
        let (leaders, shared, looks) = (&mut self.leaders[..], self.shared.as_mut(), &self.looks[..]);
        let mut search = Search { document, own, is_chain, leaders, shared, most, looks, found: vec![], looked_at: 0 };
        search.add(fingerprint, false);
        for &near in self.near.get(fingerprint) {
            search.add(near, false);
        }
        for &number in self.crowds_of.get(fingerprint) {
            let crowd = &mut self.crowds[number as usize];
            let mut is_connected = is_chain;
            crowd.retain(|&member| {
                let left = search.add(member, true);
                is_connected &= left.is_connected;
                left.is_any
            });
            if is_connected {
                crowd.clear();
            }
        }
        let (mut found, looked_at) = (search.found, search.looked_at);
        found.sort_unstable();
        found.dedup_by_key(|pair| pair.0); // the sure one comes first
        found.retain(|pair| self.is_looked_at(pair.0));
        pairs.first.resize(pairs.first.len() + found.len(), document.into());
        pairs.second.extend(found.iter().map(|pair| i64::from(pair.0)));
        pairs.is_unsure.extend(found.iter().map(|pair| pair.1));
        looked_at
    }

    /// Counts a pair of a document and an earlier one. Whether it is made.
    fn is_looked_at(&mut self, document: u32) -> bool {
        let Some(looks) = self.looks.get_mut(document as usize) else { return true };
        *looks = (*looks + 1).min(self.most + 1);
        *looks <= self.most
    }
}

/// The first of the documents that a document is connected to.
fn leader(leaders: &mut [u32], mut document: u32) -> u32 {
    while leaders[document as usize] != document {
        let before = leaders[leaders[document as usize] as usize];
        leaders[document as usize] = before;
        document = before;
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u16 = u16::MAX - 1;

    /// Groups by all pairs of documents whose fingerprints are near, or all those of a crowd.
    fn groups(of: &[u32], near: &[[u32; 2]], crowd: &[u32], is_chain: bool) -> Vec<u32> {
        let is_near = |one: u32, other: u32| {
            one == other
                || near.contains(&[one, other])
                || near.contains(&[other, one])
                || crowd.contains(&one) && crowd.contains(&other)
        };
        let mut leaders: Vec<u32> = (0..of.len() as u32).collect();
        for one in 0..of.len() {
            for other in one + 1..of.len() {
                let (first, second) = (leaders[one], leaders[other]);
                if is_near(of[one], of[other]) && is_chain {
                    leaders
                        .iter_mut()
                        .filter(|leader| **leader == first.max(second))
                        .for_each(|leader| *leader = first.min(second));
                } else if is_near(of[one], of[other]) && first == one as u32 && second == other as u32 {
                    leaders[other] = first;
                }
            }
        }
        leaders
    }

    fn taken_in_steps(candidates: &mut Candidates, at_once: usize) -> Vec<u32> {
        while let Some(pairs) = candidates.step(at_once) {
            assert_eq!((pairs.first.len(), pairs.is_unsure.len()), (pairs.second.len(), pairs.second.len()));
            let both = pairs.first.iter().zip(&pairs.second).map(|(&one, &other)| [one as u32, other as u32]);
            candidates.match_pairs(both);
        }
        candidates.finish();
        candidates.leaders().to_vec()
    }

    #[test]
    fn groups_are_those_of_all_pairs_in_steps_of_any_size() {
        let of = [0, 1, 0, 2, 3, 2, 4, 5, 6, 1, 7, 5, 8, 9, 9];
        let (near, crowd) = ([[0, 2], [1, 4], [3, 8], [2, 7], [0, 8]], [3, 5, 6, 9]);
        for (is_chain, at_once) in [false, true].into_iter().flat_map(|each| (0..40).map(move |most| (each, most))) {
            let mut candidates = Candidates::new(of.len(), Some(of.to_vec()), is_chain, ALL);
            candidates.add(near.into_iter());
            candidates.add_crowd(crowd.to_vec());
            assert_eq!(taken_in_steps(&mut candidates, at_once), groups(&of, &near, &crowd, is_chain));
            let mut distinct = Candidates::new(10, None, is_chain, ALL);
            distinct.add(near.into_iter());
            distinct.add_crowd(crowd.to_vec());
            let each = (0..10).collect::<Vec<_>>();
            assert_eq!(taken_in_steps(&mut distinct, at_once), groups(&each, &near, &crowd, is_chain));
        }
        assert!(Candidates::new(0, None, false, ALL).step(1).is_none());
    }

    #[test]
    fn a_document_is_in_no_more_pairs_with_earlier_ones_than_it_may() {
        let (of, crowd) = ([0, 0, 1, 2, 3, 0, 3, 1, 2, 4, 4, 0], [0, 1, 2, 3, 4]);
        for (is_chain, most) in [false, true].into_iter().flat_map(|each| (1..12).map(move |most| (each, most))) {
            let mut distinct = Candidates::new(of.len(), None, is_chain, most);
            distinct.add_crowd((0..of.len() as u32).collect());
            let mut shared = Candidates::new(of.len(), Some(of.to_vec()), is_chain, most);
            shared.add_crowd(crowd.to_vec());
            for mut candidates in [distinct, shared] {
                let mut looks = vec![0; of.len()];
                while let Some(pairs) = candidates.step(1) {
                    pairs.second.iter().for_each(|&document| looks[document as usize] += 1);
                }
                let wanted: Vec<_> = (0..of.len() as u16).map(|earlier| earlier.min(most)).collect();
                assert_eq!(looks, wanted);
                let left_out: Vec<_> = (0..of.len() as u16).map(|earlier| earlier > most).collect();
                assert_eq!(candidates.truncated(), left_out);
            }
        }
    }

    #[test]
    fn what_no_later_document_is_paired_with_is_looked_at_no_more() {
        let (count, most) = (2000, 10);
        for is_chain in [false, true] {
            let of = Some((0..count as u32).map(|document| document % 3).collect());
            let mut candidates = Candidates::new(count, of, is_chain, most);
            candidates.add_crowd(vec![0, 1, 2]);
            candidates.list();
            let looked_at: usize =
                (0..count as u32).map(|document| candidates.pair(document, &mut Pairs::default())).sum();
            assert!(looked_at < 3 * count * usize::from(most), "{looked_at}");
        }
    }

    #[test]
    fn pairs_are_unsure_that_only_a_crowd_has() {
        let mut candidates = Candidates::new(4, Some(vec![0, 1, 0, 2]), false, ALL);
        candidates.add([[0, 1]].into_iter());
        candidates.add_crowd(vec![0, 1, 2]);
        let pairs = candidates.step(1).expect("a step");
        let found = pairs.second.iter().zip(&pairs.is_unsure).map(|(&document, &is_unsure)| (document, is_unsure));
        assert_eq!(found.collect::<Vec<_>>(), [(1, false), (2, false), (3, true)]);
    }

    #[test]
    fn a_crowd_that_is_connected_is_looked_at_no_more() {
        let count = 1000;
        let mut candidates = Candidates::new(count, None, true, ALL);
        candidates.add_crowd((0..count as u32).collect());
        let mut steps = 0;
        while let Some(pairs) = candidates.step(count) {
            steps += 1;
            let both = pairs.first.iter().zip(&pairs.second).map(|(&one, &other)| [one as u32, other as u32]);
            candidates.match_pairs(both);
        }
        assert!(steps < 5);
        assert!(candidates.leaders().iter().all(|&leader| leader == 0));
    }
}
