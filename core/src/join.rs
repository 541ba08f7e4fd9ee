//! All pairs of near values among many: values that agree on the bits of a table are in one of its drawers, and the
//! members of a drawer are compared with each other (Manku, Jain, Das Sarma, WWW 2007, section 4).
//!
//! - Tables that begin with the same bits form a group. Values are sorted by these bits once for each group, into
//!   buckets that fit into the processor's cache, and buckets by the other bits of each of its tables.
//! - A pair is found in the first table on which both values agree, and in no other.
//! - Work is done in steps of bounded size, between which the caller looks for signals.

pub type Run = (u32, u32); // first bit, from the most significant one, and number of bits

const DIGIT: u32 = 8; // bits that are sorted by at once
const LEAD: u32 = 16; // bits that buckets are made by, at most
const BUCKET: u32 = 6; // bits: a bucket of evenly distributed values has at least so many members
const FEW: usize = 64; // members that are sorted by comparing them
const PAIRS: usize = 1 << 16; // of a step, about

/// Near pairs of values, and how many bits they differ in.
#[derive(Default)]
pub struct Pairs {
    pub one: Vec<u64>,
    pub other: Vec<u64>,
    pub distance: Vec<u8>,
}

struct Table {
    runs: Vec<Run>,
    mask: u64,
    pieces: Vec<Piece>, // of a drawer's name, without the bits that buckets are made by
}

struct Piece {
    shift: u32,
    width: u32,
    mask: u64,
}

impl Table {
    fn new(runs: Vec<Run>) -> Self {
        let mask = runs.iter().map(|&(start, width)| ones(width) << (64 - start - width)).sum();
        Table { runs, mask, pieces: vec![] }
    }

    /// Leaves out the first bits of names.
    fn leave_out(&mut self, lead: u32) {
        let mut runs = self.runs.clone();
        runs[0] = (runs[0].0 + lead, runs[0].1 - lead);
        let left = runs.into_iter().filter(|run| run.1 > 0);
        self.pieces =
            left.map(|(start, width)| Piece { shift: 64 - start - width, width, mask: ones(width) }).collect();
    }

    fn name(&self, value: u64) -> u64 {
        let add = |name: u64, piece: &Piece| name.unbounded_shl(piece.width) | value >> piece.shift & piece.mask;
        self.pieces.iter().fold(0, add)
    }

    fn width(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.width).sum()
    }
}

fn ones(width: u32) -> u64 {
    u64::MAX.checked_shr(64 - width).unwrap_or(0)
}

/// Finds pairs among distinct and sorted values, step by step.
pub struct Join {
    at_once: usize,     // comparisons of a step, about
    tables: Vec<Table>, // by group
    most: u32,
    group: std::ops::Range<usize>, // tables
    lead: u32,                     // bits by which buckets were made
    sorted: Vec<u64>,
    spare: Vec<u64>,
    bucket: std::ops::Range<usize>,
    table: usize,
    place: usize, // in the bucket: the members before have been compared
    /// How many values have been compared, once for each table.
    pub compared: usize,
}

impl Join {
    pub fn new(tables: Vec<Vec<Run>>, most: u32, at_once: usize) -> Self {
        let mut tables: Vec<_> = tables.into_iter().map(Table::new).collect();
        tables.sort_by_key(|table| table.runs[0].0);
        let (sorted, spare) = (vec![], vec![]);
        Join {
            at_once,
            tables,
            most,
            group: 0..0,
            lead: 0,
            sorted,
            spare,
            bucket: 0..0,
            table: 0,
            place: 0,
            compared: 0,
        }
    }

    /// The next pairs among these values, the same in each step; None if there are no more steps.
    pub fn step(&mut self, values: &[u64]) -> Option<Pairs> {
        let mut pairs = Pairs::default();
        let mut left = self.at_once;
        while left > 0 && pairs.one.len() < PAIRS {
            if self.place == self.bucket.len() && !self.next_drawers(values) {
                return (left < self.at_once).then_some(pairs);
            }
            left = left.saturating_sub(self.compare(&mut pairs, left));
        }
        Some(pairs)
    }

    /// Sorts the next bucket, or the same by the next table. False if there is none.
    fn next_drawers(&mut self, values: &[u64]) -> bool {
        self.place = 0;
        self.table += 1;
        if self.bucket.is_empty() || self.table == self.group.end {
            let begin = self.bucket.end;
            self.bucket = begin..begin;
            if (begin == self.sorted.len() || self.group.is_empty()) && !self.next_group(values) {
                return false;
            }
            self.table = self.group.start;
            self.bucket = self.bucket_from(if begin == self.sorted.len() { 0 } else { begin });
        }
        let table = &self.tables[self.table];
        let (members, spare) = (&mut self.sorted[self.bucket.clone()], &mut self.spare[self.bucket.clone()]);
        if members.len() <= FEW {
            members.sort_unstable_by_key(|&value| table.name(value));
        } else {
            sort(members, spare, table.width(), |value| table.name(value));
        }
        true
    }

    fn next_group(&mut self, values: &[u64]) -> bool {
        let first = self.group.end;
        let Some(table) = self.tables.get(first) else { return false };
        let start = table.runs[0].0;
        let members = self.tables[first..].iter().take_while(|table| table.runs[0].0 == start);
        let narrowest = members.clone().map(|table| table.runs[0].1).min().unwrap_or(0);
        self.group = first..first + members.count();
        let worth = values.len().checked_ilog2().unwrap_or(0).saturating_sub(BUCKET);
        self.lead = narrowest.min(LEAD).min(worth);
        self.tables[self.group.clone()].iter_mut().for_each(|table| table.leave_out(self.lead));
        self.bucket = 0..0;
        self.sorted.clear();
        self.sorted.extend_from_slice(values);
        self.spare.resize(values.len(), 0);
        let (lead, shift) = (self.lead, 64 - start - self.lead);
        if start == 0 {
            return !values.is_empty(); // they are sorted
        }
        sort(&mut self.sorted, &mut self.spare, lead, |value| (value.unbounded_shr(shift)) & ones(lead));
        !values.is_empty()
    }

    /// The bucket that begins at this place.
    fn bucket_from(&self, begin: usize) -> std::ops::Range<usize> {
        let start = self.tables[self.group.start].runs[0].0;
        let lead = ones(self.lead).unbounded_shl(64 - start - self.lead);
        let first = self.sorted[begin];
        let others = self.sorted[begin..].iter().position(|value| (value ^ first) & lead != 0);
        begin..others.map_or(self.sorted.len(), |size| begin + size)
    }

    /// Compares members of the bucket with those after them in their drawer. Returns how often.
    fn compare(&mut self, pairs: &mut Pairs, most: usize) -> usize {
        let members = &self.sorted[self.bucket.clone()];
        let (mask, earlier) = (self.tables[self.table].mask, &self.tables[..self.table]);
        let (begin, mut done) = (self.place, 0);
        while self.place < members.len() && done < most && pairs.one.len() < PAIRS {
            let one = members[self.place];
            self.place += 1;
            for &other in &members[self.place..] {
                let differing = one ^ other;
                done += 1;
                if differing & mask != 0 {
                    break;
                }
                if differing.count_ones() <= self.most && earlier.iter().all(|table| differing & table.mask != 0) {
                    pairs.one.push(one);
                    pairs.other.push(other);
                    pairs.distance.push(differing.count_ones() as u8);
                }
            }
        }
        self.compared += self.place - begin;
        done.max(1)
    }
}

/// Sorts by names of so many bits. spare: as long as the values.
fn sort(values: &mut [u64], spare: &mut [u64], width: u32, name: impl Fn(u64) -> u64) {
    let (mut from, mut to) = (&mut *values, &mut *spare);
    for begin in (0..width).step_by(DIGIT as usize) {
        let digit = |value: u64| (name(value) >> begin) as usize & ((1 << DIGIT) - 1);
        let mut places = [0; 1 << DIGIT];
        from.iter().for_each(|&value| places[digit(value)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &value in from.iter() {
            let place = &mut places[digit(value)];
            to[*place] = value;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    if width.div_ceil(DIGIT) % 2 == 1 {
        values.copy_from_slice(spare);
    }
}
