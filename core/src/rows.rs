//! Rows that an iterator of RocksDB gives to Python (rocksdict's RdictIter), without a step of Python for each of them,
//! which takes longer than RocksDB.

use crate::drawers::{number, Near, KEY_BYTES, PREFIX_BYTES};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

const AT_ONCE: usize = 4096; // rows after which other threads may run, and Ctrl-C is noticed

/// Keys; where those of each start begin, and where the last end; and which starts have more.
pub type Keys<'py> = (Vec<Bound<'py, PyBytes>>, Vec<usize>, Vec<bool>);

/// An iterator, and the rows read so far. It must not outlive the call: RocksDB keeps a store open for it.
pub struct Rows<'py> {
    seek: Bound<'py, PyAny>,
    key: Bound<'py, PyAny>,
    value: Bound<'py, PyAny>,
    next: Bound<'py, PyAny>,
    status: Bound<'py, PyAny>,
    read: usize,
}

impl<'py> Rows<'py> {
    pub fn of(iterator: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = iterator.py();
        Ok(Rows {
            seek: iterator.getattr(intern!(py, "seek"))?,
            key: iterator.getattr(intern!(py, "key"))?,
            value: iterator.getattr(intern!(py, "value"))?,
            next: iterator.getattr(intern!(py, "next"))?,
            status: iterator.getattr(intern!(py, "status"))?,
            read: 0,
        })
    }

    /// Calls `each` with up to `most` keys from `start` on, as long as it wants more. Returns whether there is one behind
    /// them.
    fn from(
        &mut self,
        start: &Bound<'py, PyAny>,
        most: usize,
        mut each: impl FnMut(&Self, Bound<'py, PyBytes>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        self.seek.call1((start,))?;
        let mut found = 0;
        let is_more = loop {
            let key = self.key.call0()?;
            if key.is_none() {
                break false;
            }
            if found == most || !each(self, key.downcast_into()?)? {
                break true;
            }
            self.next.call0()?;
            found += 1;
            self.count()?;
        };
        self.status.call0()?; // raises the error that ended the rows, if it was one
        Ok(is_more)
    }

    fn count(&mut self) -> PyResult<()> {
        self.read += 1;
        if self.read.is_multiple_of(AT_ONCE) {
            self.next.py().detach(|| {});
            self.next.py().check_signals()?;
        }
        Ok(())
    }

    /// Fingerprints within `most` bits of one, among the first `limit` rows of each drawer. A key of another size is
    /// damage, said as RocksDB says it.
    pub fn near(&mut self, value: u64, prefixes: &Bound<'py, PyList>, most: u32, limit: usize) -> PyResult<Near> {
        let mut near = Near::default();
        for prefix in prefixes.iter() {
            let before = self.read;
            let bits = &mut near.bits;
            near.truncated |= self.from(&prefix, limit, |_, key| {
                let key = key.as_bytes();
                if key.len() != KEY_BYTES {
                    let sizes = format!("{} bytes instead of {KEY_BYTES}", key.len());
                    return Err(PyException::new_err(format!("Corruption: a row key of the index has {sizes}")));
                }
                let fingerprint = number(&key[PREFIX_BYTES..]);
                let far = (fingerprint ^ value).count_ones();
                if far <= most {
                    bits.push((fingerprint, far));
                }
                Ok(true)
            })?;
            near.rows = self.read;
            near.largest = near.largest.max(self.read - before);
        }
        Ok(near.distinct())
    }

    /// Keys from each start on, up to `limit` of each, for as many starts as have `enough`.
    pub fn keys(&mut self, starts: &Bound<'py, PyList>, limit: usize, enough: usize) -> PyResult<Keys<'py>> {
        let (mut keys, mut offsets, mut more) = (vec![], vec![0], vec![]);
        for start in starts.iter() {
            more.push(self.from(&start, limit, |_, key| {
                keys.push(key);
                Ok(true)
            })?);
            offsets.push(keys.len());
            if keys.len() >= enough {
                break;
            }
        }
        Ok((keys, offsets, more))
    }

    /// Up to `limit` rows from a start on that begin with a prefix: keys and values.
    pub fn beginning(
        &mut self,
        start: &Bound<'py, PyAny>,
        prefix: &[u8],
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut found = vec![];
        self.from(start, limit, |rows, key| {
            let is_within = key.as_bytes().starts_with(prefix);
            if is_within {
                found.push(PyTuple::new(key.py(), [key.into_any(), rows.value.call0()?])?);
            }
            Ok(is_within)
        })?;
        Ok(found)
    }
}
