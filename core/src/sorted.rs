//! Drawers of fingerprints that do not change, for lookups of many at once. A row takes 8 bytes, a third of what one takes
//! in `drawers.rs`.
//!
//! - The rows of a table are sorted: a drawer's segment above the position of a fingerprint.
//! - A directory says where the rows begin whose segments have the same first bits: a few rows, if segments are spread.
//! - Memory is fetched for some queries before it is read: each read by itself would wait for it.

use crate::table::fetch;

const AHEAD: usize = 16; // queries
const ROWS_BITS: u32 = 2; // rows of an entry of the directory, about: they are in one or two lines of the cache
const FEW: usize = 32; // rows that are faster passed one by one
const SEGMENT_BITS: u32 = 32;

#[derive(Default)]
pub struct SortedDrawers {
    rows: Vec<u64>,
    members: usize,
    directory: Vec<u32>,
    bits: u32, // of a segment, that name an entry
}

/// The fingerprints of members and of queries, and how many bits of these may differ.
pub struct Compared<'a> {
    pub members: &'a [u64],
    pub queries: &'a [u64],
    pub most: u32,
}

/// segments: of the drawers that each query reads, one in each of the tables; limit: rows read of a drawer, the first.
pub struct Asked<'a> {
    pub segments: &'a [u32],
    pub tables: &'a [usize],
    pub limit: usize,
    pub compared: Option<Compared<'a>>,
}

/// Queries and members, ascending, each pair once; and queries of which a drawer has more rows than the limit.
#[derive(Default)]
pub struct Found {
    pub query: Vec<i64>,
    pub member: Vec<i64>,
    pub full: Vec<i64>,
}

impl SortedDrawers {
    pub fn new(tables: usize, members: usize) -> Self {
        let bits = members.checked_ilog2().unwrap_or(0).saturating_sub(ROWS_BITS);
        let directory = vec![0; tables * ((1 << bits) + 1)];
        SortedDrawers { rows: vec![0; tables * members], members, directory, bits }
    }

    /// Puts members from a position on: the segments of each in all tables.
    pub fn put(&mut self, first: usize, segments: &[u32]) {
        let tables = self.directory.len() / self.entries();
        for (position, of_member) in (first..).zip(segments.chunks_exact(tables)) {
            for (table, &segment) in of_member.iter().enumerate() {
                self.rows[table * self.members + position] = u64::from(segment) << SEGMENT_BITS | position as u64;
            }
        }
    }

    /// Sorts a table after all members were put.
    pub fn sort(&mut self, table: usize) {
        let entries = self.entries();
        let rows = &mut self.rows[table * self.members..][..self.members];
        rows.sort_unstable();
        let directory = &mut self.directory[table * entries..][..entries];
        let mut entry = 0;
        for (place, row) in rows.iter().enumerate() {
            let of_row = (row >> SEGMENT_BITS >> (SEGMENT_BITS - self.bits)) as usize;
            while entry <= of_row {
                directory[entry] = place as u32;
                entry += 1;
            }
        }
        directory[entry..].fill(rows.len() as u32);
    }

    fn entries(&self) -> usize {
        (1 << self.bits) + 1
    }

    #[inline(always)]
    fn entry(&self, table: usize, segment: u32) -> usize {
        table * self.entries() + (u64::from(segment) >> (SEGMENT_BITS - self.bits)) as usize
    }

    /// The members in drawers of queries from `first` on, within the bits if they are compared, of as many queries as
    /// read about `at_once` rows together. Returns the query after them.
    pub fn near(&self, asked: &Asked, first: usize, at_once: usize) -> (Found, usize) {
        let (mut found, mut next, mut read) = (Found::default(), first, 0);
        let (mut pairs, mut places) = (vec![], vec![]);
        let queries = asked.segments.len() / asked.tables.len();
        while next < queries && read < at_once {
            let mut end = (next + AHEAD).min(queries);
            let ahead = next..end;
            let probes = || {
                ahead.clone().flat_map(|query| {
                    let segments = &asked.segments[query * asked.tables.len()..];
                    asked.tables.iter().zip(segments).map(move |(&table, &segment)| (query, table, segment))
                })
            };
            probes().for_each(|(_, table, segment)| fetch(&self.directory, self.entry(table, segment)));
            places.clear();
            for (_, table, segment) in probes() {
                let entry = self.entry(table, segment);
                let begin = table * self.members;
                let place = (begin + self.directory[entry] as usize, begin + self.directory[entry + 1] as usize);
                fetch(&self.rows, place.0);
                places.push(place);
            }
            pairs.clear();
            for ((query, _, segment), &place) in probes().zip(&places) {
                if pairs.len() >= at_once && query as u64 > next as u64 + (pairs[pairs.len() - 1] >> SEGMENT_BITS) {
                    end = query; // a query is never split
                    break;
                }
                let drawer = self.drawer(segment, place);
                let rows = &drawer[..drawer.len().min(asked.limit)];
                if rows.len() < drawer.len() && found.full.last() != Some(&(query as i64)) {
                    found.full.push(query as i64);
                }
                read += rows.len();
                pairs.extend(rows.iter().map(|&row| ((query - next) as u64) << SEGMENT_BITS | row & 0xFFFF_FFFF));
            }
            if let Some(compared) = &asked.compared {
                pairs.iter().for_each(|pair| fetch(compared.members, *pair as u32 as usize));
                pairs.retain(|pair| {
                    let query = compared.queries[next + (pair >> SEGMENT_BITS) as usize];
                    (compared.members[*pair as u32 as usize] ^ query).count_ones() <= compared.most
                });
            }
            pairs.sort_unstable();
            pairs.dedup();
            found.query.extend(pairs.iter().map(|pair| next as i64 + (pair >> SEGMENT_BITS) as i64));
            found.member.extend(pairs.iter().map(|pair| i64::from(*pair as u32)));
            next = end;
        }
        (found, next)
    }

    /// The rows of a drawer, which are among those of its entry in the directory.
    #[inline(always)]
    fn drawer(&self, segment: u32, (begin, behind): (usize, usize)) -> &[u64] {
        let (low, high) = (u64::from(segment) << SEGMENT_BITS, (u64::from(segment) + 1) << SEGMENT_BITS);
        let rows = &self.rows[begin..behind];
        let place = |bound: u64, rows: &[u64]| {
            if rows.len() <= FEW {
                rows.iter().take_while(|&&row| row < bound).count()
            } else {
                rows.partition_point(|&row| row < bound)
            }
        };
        let rows = &rows[place(low, rows)..];
        &rows[..if high == 0 { rows.len() } else { place(high, rows) }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::fmix64;
    use std::collections::BTreeSet;

    const TABLES: usize = 3;
    const MEMBERS: usize = 500;

    /// Of few values or many, at both ends of the range.
    fn segment(number: u64, table: usize) -> u32 {
        let hash = fmix64(number * TABLES as u64 + table as u64);
        match table {
            0 => hash as u32 % 5 * (u32::MAX / 4),
            1 => u32::MAX - hash as u32 % 2,
            _ => (hash as u32) & 0xFF00_0000,
        }
    }

    fn segments(numbers: std::ops::Range<u64>) -> Vec<u32> {
        numbers.flat_map(|number| (0..TABLES).map(move |table| segment(number, table))).collect()
    }

    #[test]
    fn queries_find_the_first_members_of_their_drawers() {
        let mut drawers = SortedDrawers::new(TABLES, MEMBERS);
        drawers.put(200, &segments(200..MEMBERS as u64));
        drawers.put(0, &segments(0..200));
        (0..TABLES).for_each(|table| drawers.sort(table));
        let (first, count) = (1_000, 40);
        let asked_for = segments(first..first + count);
        let value = |number: u64| fmix64(number) & 0xFF;
        let values: [Vec<u64>; 2] =
            [(0..MEMBERS as u64).map(value).collect(), (first..first + count).map(value).collect()];
        for (limit, most, at_once) in [(usize::MAX, 64, 1), (usize::MAX, 3, 1_000), (7, 3, 100), (7, 64, 1 << 20)] {
            let compared = (most < 64).then_some(Compared { members: &values[0], queries: &values[1], most });
            let asked = Asked { segments: &asked_for, tables: &[0, 1, 2], limit, compared };
            let (mut pairs, mut full, mut next) = (vec![], vec![], 0);
            while next < count as usize {
                let (found, end) = drawers.near(&asked, next, at_once);
                assert!(end > next);
                pairs.extend(found.query.into_iter().zip(found.member));
                full.extend(found.full);
                next = end;
            }
            let (mut expected, mut cut) = (BTreeSet::new(), BTreeSet::new());
            for (query, number) in (first..first + count).enumerate() {
                for table in 0..TABLES {
                    let is_there = |&member: &u64| segment(member, table) == segment(number, table);
                    let mut members = (0..MEMBERS as u64).filter(is_there);
                    let is_near = |member: &u64| (value(*member) ^ value(number)).count_ones() <= most;
                    let read = members.by_ref().take(limit).filter(is_near);
                    expected.extend(read.map(|member| (query as i64, member as i64)));
                    cut.extend(members.next().map(|_| query as i64));
                }
            }
            assert!(pairs.iter().eq(&expected) && full.iter().eq(&cut));
        }
    }

    #[test]
    fn no_members_and_no_queries_are_near_nothing() {
        let mut drawers = SortedDrawers::new(1, 0);
        drawers.sort(0);
        for segments in [&[][..], &[0, u32::MAX]] {
            let asked = Asked { segments, tables: &[0], limit: 1, compared: None };
            let (found, next) = drawers.near(&asked, 0, 10);
            assert_eq!((found.query.len(), found.full.len(), next), (0, 0, segments.len()));
        }
    }
}
