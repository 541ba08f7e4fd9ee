//! Rows of a table in memory: values and their versions by key, in the order of the keys.

use std::collections::BTreeMap;
use std::ops::Bound;

const HEAD: usize = 8;

/// A key below its first bytes as a number, which most comparisons end with: the key itself lies elsewhere in memory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    head: u64,
    bytes: Box<[u8]>,
}

impl Key {
    fn new(bytes: &[u8]) -> Self {
        let mut head = [0; HEAD];
        let size = bytes.len().min(HEAD);
        head[..size].copy_from_slice(&bytes[..size]);
        Key { head: u64::from_be_bytes(head), bytes: bytes.into() }
    }
}

pub struct Cell {
    pub value: Box<[u8]>,
    pub version: i64,
}

#[derive(Default)]
pub struct Records(BTreeMap<Key, Cell>);

impl Records {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of all keys and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(key, cell)| key.bytes.len() + cell.value.len()).sum()
    }

    pub fn get(&self, key: &[u8]) -> Option<&Cell> {
        self.0.get(&Key::new(key))
    }

    /// Writes a cell, unless there is one with a higher version; None, which is kept as 0: in any case.
    pub fn put(&mut self, key: &[u8], value: &[u8], version: Option<i64>) {
        let key = Key::new(key);
        if version.is_some_and(|version| self.0.get(&key).is_some_and(|found| found.version > version)) {
            return;
        }
        self.0.insert(key, Cell { value: value.into(), version: version.unwrap_or(0) });
    }

    /// Removes a cell, unless it has a higher version.
    pub fn delete(&mut self, key: &[u8], version: Option<i64>) {
        let key = Key::new(key);
        if self.0.get(&key).is_some_and(|found| found.version <= version.unwrap_or(i64::MAX)) {
            self.0.remove(&key);
        }
    }

    /// Rows from a key on, in order.
    pub fn from(&self, start: &[u8]) -> impl Iterator<Item = (&[u8], &Cell)> {
        let range = (Bound::Included(Key::new(start)), Bound::Unbounded);
        self.0.range(range).map(|(key, cell)| (&*key.bytes, cell))
    }

    /// Rows whose keys begin with a prefix, in order.
    pub fn beginning<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a Cell)> {
        self.from(prefix).take_while(move |(key, _)| key.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_their_bytes() {
        let mut records = Records::default();
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for length in 1..12usize {
            keys.extend([0u8, 1, 255].map(|last| [vec![0; length - 1], vec![last]].concat()));
        }
        keys.iter().for_each(|key| records.put(key, key, Some(1)));
        keys.sort();
        keys.dedup();
        assert_eq!(records.len(), keys.len());
        assert!(records.from(&[]).map(|row| row.0).eq(keys.iter().map(Vec::as_slice)));
        for start in &keys {
            let from = keys.iter().filter(|key| *key >= start).map(Vec::as_slice);
            assert!(records.from(start).map(|row| row.0).eq(from));
            let beginning = keys.iter().filter(|key| key.starts_with(start)).map(Vec::as_slice);
            assert!(records.beginning(start).map(|row| row.0).eq(beginning));
        }
    }
}
