//! simhbase._core: what Python calls. Work per character or per bit is done here, everything else in Python.
//!
//! Texts come as lists of strings; arrays go out as bytes of the machine's numbers. The interpreter is held only
//! while strings are read and results handed out. A panic becomes simhbase.errors.CoreFailed.

mod boilerplate;
mod candidates;
mod containment;
mod dictionary;
mod drawers;
mod features;
mod growing;
mod hash;
mod jaccard;
mod join;
mod keyed;
mod mates;
mod minhash;
mod near;
mod normal;
mod pipeline;
mod records;
mod rows;
mod simhash;
mod sorted;
mod table;
mod texts;
mod thrift;
#[rustfmt::skip]
mod unicode;
mod words;

use boilerplate::{pieces, WINDOW};
use features::{Options, Weights};
use normal::{Fold, Normal};
use pipeline::{Fingerprints, Scratch, Sketching};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFrozenSet, PyList, PyTuple, PyType};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use texts::{points, string, Texts};

const KEPT: usize = 1 << 20; // characters: memory that longer texts needed is given back

type List<'a, 'py> = &'a Bound<'py, PyList>;

fn read(texts: List<'_, '_>) -> PyResult<Texts> {
    Texts::read(&texts.iter().collect::<Vec<_>>())
}

/// Works without the interpreter. A panic becomes an exception.
fn work<T: Send>(py: Python<'_>, job: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(job))).map_err(|_| failed(py))
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) }; // the last one's place and message
}

fn failed(py: Python<'_>) -> PyErr {
    let panic = PANIC.take();
    let message =
        format!("the compiled core failed ({panic}): please report this message with the text that caused it");
    let raise = || py.import("simhbase.errors")?.getattr("CoreFailed")?.call1((message.as_str(),));
    raise().map_or_else(|error| error, PyErr::from_value)
}

/// Numbers of a primitive type as bytes.
fn bytes_of<T: Copy>(numbers: &[T]) -> &[u8] {
    // SAFETY: all bytes of primitive numbers are initialised, and the slice is as long as they are.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) }
}

/// An array that NumPy reads and may write to.
fn array<'py, T: Copy>(py: Python<'py>, numbers: &[T]) -> Bound<'py, PyByteArray> {
    PyByteArray::new(py, bytes_of(numbers))
}

fn first_half(token: &str) -> u64 {
    hash::murmur128(token.as_bytes())[0]
}

/// jieba's dictionary and model, from a block that `build_dictionary` made: bytes, or a mapped file that is not
/// written to. Raises ValueError for another version or a damaged block.
#[pyclass(frozen)]
struct Dictionary(Arc<dictionary::Dictionary>);

#[pymethods]
impl Dictionary {
    #[new]
    fn new(block: PyBuffer<u8>) -> PyResult<Self> {
        let damaged = || PyValueError::new_err("the dictionary's block is of another version, or damaged");
        let address = block.buf_ptr().cast::<u64>();
        if !block.is_c_contiguous() || !address.is_aligned() {
            return Err(damaged());
        }
        let words = std::ptr::slice_from_raw_parts(address.cast_const(), block.len_bytes() / 8);
        // SAFETY: the buffer keeps the memory; callers do not write to it.
        let opened = unsafe { dictionary::Dictionary::open(words, Box::new(block)) };
        opened.map(|found| Dictionary(Arc::new(found))).ok_or_else(damaged)
    }
}

/// The block of jieba's dictionary. content: its dict.txt; starts, transitions, emissions: its model, states in the
/// order B, E, M, S. Raises ValueError for a malformed line.
#[pyfunction]
fn build_dictionary<'py>(
    py: Python<'py>,
    content: &str,
    starts: [f64; 4],
    transitions: [[f64; 4]; 4],
    emissions: [HashMap<char, f64>; 4],
) -> PyResult<Bound<'py, PyBytes>> {
    let of_state =
        |(state, of): (usize, HashMap<char, f64>)| of.into_iter().map(move |(each, value)| (state, each, value));
    let emissions = emissions.into_iter().enumerate().flat_map(of_state).collect();
    let model = dictionary::Model { starts, transitions, emissions };
    let block = work(py, || dictionary::build(content, &model))?.map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, bytes_of(&block)))
}

/// The normal form of texts. fold: uint32, the replacement of each character up to the last of a table of variants
/// (0xFFFFFFFF removes it), or None.
#[pyclass(frozen)]
struct Form(Option<Arc<Fold>>);

#[pymethods]
impl Form {
    #[new]
    fn new(fold: Option<&[u8]>) -> Self {
        let points = |bytes: &[u8]| {
            bytes.chunks_exact(4).map(|each| u32::from_le_bytes([each[0], each[1], each[2], each[3]])).collect()
        };
        Form(fold.map(|bytes| Arc::new(Fold::new(points(bytes)))))
    }

    fn normalise<'py>(&self, py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let text = points(text)?;
        string(py, &work(py, || self.normal(&text))?.points)
    }

    /// Growing shingles of a text without white space: places (uint32) and lengths (uint8), in no particular order.
    fn growing_shingles<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'_, PyAny>,
    ) -> PyResult<[Bound<'py, PyByteArray>; 2]> {
        let text = points(text)?;
        let (found, _) = work(py, || self.growing(&text))?;
        Ok([array(py, &found.places), array(py, &found.lengths)])
    }

    /// Number of growing shingles a place where one could start; 1 for a text without such places.
    fn novelty(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<f64> {
        let text = points(text)?;
        let (found, characters) = work(py, || self.growing(&text))?;
        let places = (characters + 1).saturating_sub(growing::SHORTEST);
        Ok(if places == 0 { 1.0 } else { found.lengths.len() as f64 / places as f64 })
    }

    /// Each word of a text: its normal form, and its begin and end in the text.
    fn words(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        dictionary: &Dictionary,
    ) -> PyResult<Vec<(String, u32, u32)>> {
        let text = points(text)?;
        work(py, || {
            let mut normal = Normal::default();
            normal::with_origins(&text, self.0.as_deref(), &mut normal);
            let mut cutter = words::Cutter::default();
            cutter.cut(&normal, &dictionary.0);
            let word = |&(begin, end): &(u32, u32)| {
                let (begin, end) = (begin as usize, end as usize);
                (said(&normal.points[begin..end]), normal.origins[begin].0, normal.origins[end - 1].1)
            };
            cutter.tokens.iter().map(word).collect()
        })
    }
}

impl Form {
    /// Growing shingles of a text, and its number of characters that are no white space.
    fn growing(&self, text: &[u32]) -> (growing::Growing, usize) {
        let bare = self.normal(text).points.into_iter().filter(|&point| point != 32).collect::<Vec<_>>();
        let mut found = growing::Growing::default();
        found.read(&bare);
        (found, bare.len())
    }

    fn normal(&self, text: &[u32]) -> Normal {
        let mut normal = Normal::default();
        normal::normalise(text, self.0.as_deref(), &mut normal);
        normal
    }
}

/// A word, which holds no surrogates.
fn said(word: &[u32]) -> String {
    word.iter().filter_map(|&point| char::from_u32(point)).collect()
}

/// Lines and phrases to remove from texts.
#[pyclass(frozen)]
struct Boilerplate {
    known: Arc<boilerplate::Boilerplate>,
    fold: Option<Arc<Fold>>,
}

#[pymethods]
impl Boilerplate {
    #[new]
    fn new(py: Python<'_>, lines: List<'_, '_>, phrases: List<'_, '_>, form: &Form) -> PyResult<Self> {
        let (lines, phrases) = (read(lines)?, read(phrases)?);
        let fold = form.0.clone();
        let known = work(py, || {
            let owned = |texts: &Texts| texts.iter().map(<[u32]>::to_vec).collect::<Vec<_>>();
            boilerplate::Boilerplate::new(&owned(&lines), &owned(&phrases), fold.as_deref())
        })?;
        Ok(Boilerplate { known: Arc::new(known), fold })
    }

    /// Replaces the boilerplate of texts by spaces and folds the rest; others are the same objects.
    fn strip<'py>(&self, py: Python<'py>, texts: List<'_, 'py>) -> PyResult<Bound<'py, PyList>> {
        let held = read(texts)?;
        let strip = |text| self.known.strip(text, self.fold.as_deref());
        let stripped = work(py, || held.iter().map(strip).collect::<Vec<_>>())?;
        let each = texts.iter().zip(&stripped).map(|(text, without)| match without {
            None => Ok(text),
            Some(points) => string(py, points),
        });
        PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)
    }
}

/// Units of texts, by which boilerplate is found.
#[pyclass(frozen)]
struct Units(Vec<(usize, boilerplate::Units)>);

#[pymethods]
impl Units {
    /// Very long texts are cut piece by piece.
    #[new]
    fn new(py: Python<'_>, texts: List<'_, '_>) -> PyResult<Self> {
        let texts = read(texts)?;
        let of_text = |(number, text)| pieces(text).map(move |piece| (number, boilerplate::Units::cut(piece, None)));
        Ok(Units(work(py, || texts.iter().enumerate().flat_map(of_text).collect())?))
    }

    /// Numbers of units of each piece, int64.
    fn counts<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        array(py, &self.0.iter().map(|(_, units)| units.spans.len()).collect::<Vec<_>>())
    }

    /// Windows, and lines that are shorter than one: numbers of texts, hashes (uint64), pieces, first units, and those
    /// after the last (int64 each).
    fn items<'py>(&self, py: Python<'py>) -> [Bound<'py, PyByteArray>; 5] {
        let mut columns: [Vec<u64>; 5] = Default::default();
        for (piece, (text, units)) in self.0.iter().enumerate() {
            let windows = units.windows().map(|(first, hash)| (hash, first, first + WINDOW));
            let lines = units.lines().into_iter().map(|line| (line.hash, line.first, line.behind));
            for (hash, first, behind) in windows.chain(lines.filter(|line| line.2 - line.1 < WINDOW)) {
                let item = [*text as u64, hash, piece as u64, first as u64, behind as u64];
                columns.iter_mut().zip(item).for_each(|(column, value)| column.push(value));
            }
        }
        columns.map(|column| array(py, &column))
    }

    /// Text of the units of a piece from `first` to the one before `behind`.
    fn shown<'py>(&self, py: Python<'py>, piece: usize, first: usize, behind: usize) -> PyResult<Bound<'py, PyAny>> {
        let units = &self.0[piece].1;
        string(py, &units.points[units.spans[first].0..units.spans[behind - 1].1])
    }

    /// The units of all texts.
    fn every<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let spans = self.0.iter().flat_map(|(_, units)| units.spans.iter().map(|span| &units.points[span.0..span.1]));
        spans.map(|unit| string(py, unit)).collect()
    }
}

/// Sketches: slots, bits, seed, is_sized, is_numbered, is_fingerprint.
type SketchOptions = (usize, u32, u64, bool, bool, bool);

/// Fingerprints of texts by the parameters of a profile.
#[pyclass(frozen)]
struct Pipeline {
    of: pipeline::Pipeline,
    free: Mutex<Vec<Scratch>>,
}

#[pymethods]
impl Pipeline {
    /// dictionary: for words; top: 0 keeps all; idf: weights by word, for `tfidf` and `levels`; unknown: that of other
    /// words. Raises ValueError for kinds and weights that there are not.
    #[new]
    #[pyo3(signature = (form, dictionary, kind, weights, top, min_length, stop_words, idf, unknown, bits, min_features, boilerplate, sketching))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        form: &Form,
        dictionary: Option<&Dictionary>,
        kind: &str,
        weights: &str,
        top: usize,
        min_length: usize,
        stop_words: Vec<String>,
        idf: HashMap<String, u64>,
        unknown: u64,
        bits: usize,
        min_features: usize,
        boilerplate: Option<&Boilerplate>,
        sketching: Option<SketchOptions>,
    ) -> PyResult<Self> {
        let unknown_name = |what: &str, name: &str| PyValueError::new_err(format!("no such {what}: {name}"));
        let options = Options {
            kind: pipeline::kind_of(kind).ok_or_else(|| unknown_name("kind of features", kind))?,
            weights: weights_of(weights).ok_or_else(|| unknown_name("weights", weights))?,
            top,
            min_length,
            stop_words: stop_words.iter().map(|word| first_half(word)).collect::<HashSet<_, _>>(),
            idf: keyed::Values::new(idf.iter().map(|(word, &value)| (first_half(word), value))),
            unknown,
            is_wide: bits == 128,
            dictionary: dictionary.map(|each| each.0.clone()),
        };
        let sketching = sketching.map(|(slots, bits, seed, is_sized, is_numbered, is_fingerprint)| Sketching {
            permutations: minhash::Permutations::new(slots, bits, seed),
            is_sized,
            is_numbered,
            is_fingerprint,
        });
        let of = pipeline::Pipeline {
            options,
            fold: form.0.clone(),
            boilerplate: boilerplate.map(|each| each.known.clone()),
            sketching,
            min_features,
        };
        Ok(Pipeline { of, free: Mutex::default() })
    }

    /// Of n texts: fingerprints (uint64, one or two a text), sketches, and numbers of distinct features (uint32;
    /// min_features or more may be too low).
    fn fingerprint<'py>(&self, py: Python<'py>, texts: List<'_, 'py>) -> PyResult<[Bound<'py, PyByteArray>; 3]> {
        let texts = read(texts)?;
        let mut out = Fingerprints::default();
        let run = |scratch: &mut Scratch| texts.iter().for_each(|text| self.of.fingerprint(text, scratch, &mut out));
        self.with_scratch(py, texts.characters(), run)?;
        Ok([array(py, &out.values), array(py, &out.sketches), array(py, &out.distinct)])
    }

    /// Of one text: the words of its fingerprint, its sketch, and its number of distinct features.
    fn fingerprint_one<'py>(&self, text: Bound<'py, PyAny>) -> PyResult<(Vec<u64>, Bound<'py, PyBytes>, u32)> {
        let (py, text) = (text.py(), points(&text)?);
        let mut out = Fingerprints::default();
        self.with_scratch(py, text.len(), |scratch| self.of.fingerprint(&text, scratch, &mut out))?;
        Ok((out.values, PyBytes::new(py, &out.sketches), out.distinct[0]))
    }

    /// The sets of the features of texts.
    fn sets(&self, py: Python<'_>, texts: List<'_, '_>) -> PyResult<Sets> {
        let texts = read(texts)?;
        Ok(Sets(self.with_scratch(py, texts.characters(), |scratch| self.sets_of(&texts, scratch))?))
    }

    /// Jaccard similarity of pairs of texts, given by their numbers (int64 each): float64. Of two without features 1 if
    /// they are equal.
    fn similarity<'py>(
        &self,
        py: Python<'py>,
        texts: List<'_, '_>,
        left: PyBuffer<i64>,
        right: PyBuffer<i64>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let texts = read(texts)?;
        let (left, right) = (left.to_vec(py)?, right.to_vec(py)?);
        let found = self.with_scratch(py, texts.characters(), |scratch| {
            let (sets, texts) = (self.sets_of(&texts, scratch), texts.iter().collect::<Vec<_>>());
            let of_pair = |(&one, &other): (&i64, &i64)| {
                let (one, other) = (one as usize, other as usize);
                let is_bare = sets.get(one).is_empty() && sets.get(other).is_empty();
                if is_bare && texts[one] == texts[other] {
                    1.0
                } else {
                    sets.similarity(one, other)
                }
            };
            left.iter().zip(&right).map(of_pair).collect::<Vec<_>>()
        })?;
        Ok(array(py, &found))
    }

    /// Of pairs of texts, given by their numbers (int64 each), the share of the first's characters that the second has:
    /// float64.
    fn containment<'py>(
        &self,
        py: Python<'py>,
        texts: List<'_, '_>,
        left: PyBuffer<i64>,
        right: PyBuffer<i64>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let texts = read(texts)?;
        let (left, right) = (left.to_vec(py)?, right.to_vec(py)?);
        let found = work(py, || {
            let bare = texts.iter().map(|text| self.of.bare(text)).collect::<Vec<_>>();
            let pairs = left.iter().zip(&right).map(|(&one, &other)| (one as usize, other as usize));
            containment::containment(&bare, &pairs.collect::<Vec<_>>())
        })?;
        Ok(array(py, &found))
    }

    /// The words of a text and their weights, heaviest first, ties by bytes. (Weights in units of an IDF of 1/65536,
    /// of one half where they are saturated, and of one elsewhere.)
    fn words(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Vec<(String, u64)>> {
        let text = points(text)?;
        let list = |scratch: &mut Scratch| self.of.words(&text, scratch);
        let words = self.with_scratch(py, text.len(), list)?;
        Ok(words.iter().map(|(word, weight)| (String::from_utf8_lossy(word).into_owned(), *weight)).collect())
    }
}

impl Pipeline {
    fn sets_of(&self, texts: &Texts, scratch: &mut Scratch) -> jaccard::Sets {
        let mut sets = jaccard::Sets::default();
        for text in texts.iter() {
            self.of.extract(text, scratch);
            sets.add(scratch.features.digests.iter().map(|digest| digest[0]));
        }
        sets
    }

    fn with_scratch<T: Send>(
        &self,
        py: Python<'_>,
        characters: usize,
        job: impl FnOnce(&mut Scratch) -> T + Send,
    ) -> PyResult<T> {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = free().pop().unwrap_or_default();
        let done = work(py, || job(&mut scratch))?;
        if characters <= KEPT {
            free().push(scratch);
        }
        Ok(done)
    }
}

/// Sets of features of texts.
#[pyclass(frozen)]
struct Sets(jaccard::Sets);

#[pymethods]
impl Sets {
    /// Numbers of features, int64.
    fn sizes<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        array(py, &self.0.iter().map(<[u64]>::len).collect::<Vec<_>>())
    }

    /// Jaccard similarity of pairs of sets, given by their numbers (int64 each): float64, 0 for two empty sets.
    fn similarity<'py>(
        &self,
        py: Python<'py>,
        left: PyBuffer<i64>,
        right: PyBuffer<i64>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (left, right) = (left.to_vec(py)?, right.to_vec(py)?);
        let pairs = left.iter().zip(&right);
        let of_pair = |(&one, &other): (&i64, &i64)| self.0.similarity(one as usize, other as usize);
        let found = work(py, || pairs.map(of_pair).collect::<Vec<_>>())?;
        Ok(array(py, &found))
    }

    /// Features that several sets have, as ranks, rarest first: those of each set, ascending (uint32), and where each
    /// set begins, with the end of the last (int64).
    fn ranked<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyByteArray>; 2]> {
        let (tokens, bounds) = work(py, || self.0.ranked())?;
        Ok([array(py, &tokens), array(py, &bounds)])
    }
}

fn weights_of(name: &str) -> Option<Weights> {
    Some(match name {
        "count" => Weights::Count,
        "capped" => Weights::Capped,
        "saturated" => Weights::Saturated,
        "tfidf" => Weights::Idf,
        "levels" => Weights::Levels,
        _ => return None,
    })
}

/// All pairs of near values.
#[pyclass(frozen)]
struct Join {
    values: PyBuffer<u64>,
    of: Mutex<join::Join>,
}

/// Pairs: values (uint64) and distances (uint8), and how many values have been compared so far, once for each table.
type Found<'py> = (Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, Bound<'py, PyByteArray>, usize);

#[pymethods]
impl Join {
    /// values: uint64, distinct and sorted, which nobody writes to; most: bits; tables: runs of bits, each its first bit and their
    /// number; at_once: comparisons of a step, at least 1. Raises ValueError for other arrays and runs.
    #[new]
    fn new(values: PyBuffer<u64>, most: u32, tables: Vec<Vec<join::Run>>, at_once: usize) -> PyResult<Self> {
        let is_run = |&(start, width): &join::Run| width > 0 && start < 64 && width <= 64 - start;
        if !values.is_c_contiguous() || tables.iter().any(|runs| runs.is_empty() || !runs.iter().all(is_run)) {
            return Err(PyValueError::new_err("values must be contiguous, and tables runs of their 64 bits"));
        }
        Ok(Join { values, of: Mutex::new(join::Join::new(tables, most, at_once)) })
    }

    /// The pairs of the next step; None after the last one.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Found<'py>>> {
        let address = self.values.buf_ptr().cast::<u64>().cast_const() as usize;
        let found = work(py, || {
            // SAFETY: the buffer keeps the memory; callers do not write to it.
            let values = unsafe { std::slice::from_raw_parts(address as *const u64, self.values.item_count()) };
            let mut join = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            join.step(values).map(|pairs| (pairs, join.compared))
        })?;
        let arrays = |(pairs, compared): (join::Pairs, usize)| {
            (array(py, &pairs.one), array(py, &pairs.other), array(py, &pairs.distance), compared)
        };
        Ok(found.map(arrays))
    }
}

/// The numbers of a contiguous array.
fn numbers_in<T: pyo3::buffer::Element>(array: &PyBuffer<T>) -> PyResult<&[T]> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("not a contiguous array"));
    }
    if array.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer keeps the memory; callers do not write to it.
    Ok(unsafe { std::slice::from_raw_parts(array.buf_ptr().cast::<T>().cast_const(), array.item_count()) })
}

/// Members of the same drawers.
#[pyclass(frozen)]
struct Mates(Mutex<mates::Mates>);

#[pymethods]
impl Mates {
    /// keys: uint64, ascending, each the name of a drawer and, in its last bits, a position; most: the members of a drawer
    /// that are paired with each other, None for any number.
    #[new]
    fn new(py: Python<'_>, keys: PyBuffer<u64>, position_bits: u32, most: Option<usize>) -> PyResult<Self> {
        if position_bits > 63 {
            return Err(PyValueError::new_err("positions must have less than 64 bits"));
        }
        let keys = numbers_in(&keys)?;
        let made = work(py, || mates::Mates::new(keys, position_bits, most.unwrap_or(usize::MAX)))?;
        Ok(Mates(Mutex::new(made)))
    }

    /// The positions in each drawer of more than `most` members, ascending: int64.
    fn crowds<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyByteArray>> {
        let mates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mates.crowds().iter().map(|places| array(py, places)).collect()
    }

    /// The positions in the other drawers of at least two members: int64.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        Ok(array(py, &work(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).members())?))
    }

    /// At most `at_once` further pairs in these: the lesser and the greater positions, int64 each. None if there are no
    /// more.
    fn step<'py>(&self, py: Python<'py>, at_once: usize) -> PyResult<Option<[Bound<'py, PyByteArray>; 2]>> {
        let found = work(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).step(at_once))?;
        Ok(found.map(|pairs| pairs.map(|places| array(py, &places))))
    }
}

/// Pairs of documents that may match, and the groups of those that do.
#[pyclass(frozen)]
struct Candidates(Mutex<candidates::Candidates>);

#[pymethods]
impl Candidates {
    /// fingerprints: int32, the number of each document's, None if all have different ones; is_chain: whether groups are
    /// chains, else they are stars; most: pairs of a document with earlier ones. Raises ValueError for too many documents.
    #[new]
    fn new(
        py: Python<'_>,
        documents: usize,
        fingerprints: Option<PyBuffer<i32>>,
        is_chain: bool,
        most: u16,
    ) -> PyResult<Self> {
        if i32::try_from(documents).is_err() {
            return Err(PyValueError::new_err("too many documents"));
        }
        let numbers = fingerprints.as_ref().map(numbers_in).transpose()?;
        let owned = |numbers: &[i32]| numbers.iter().map(|&number| number as u32).collect();
        let made = work(py, || candidates::Candidates::new(documents, numbers.map(owned), is_chain, most))?;
        Ok(Candidates(Mutex::new(made)))
    }

    /// Adds pairs of near fingerprints: their numbers, int64 each.
    fn add(&self, py: Python<'_>, one: PyBuffer<i64>, other: PyBuffer<i64>) -> PyResult<()> {
        let pairs = pairs_in(&one, &other)?;
        work(py, || self.locked().add(pairs))
    }

    /// Adds fingerprints of which many are near each other: their numbers, int64.
    fn add_crowd(&self, py: Python<'_>, members: PyBuffer<i64>) -> PyResult<()> {
        let members = numbers_in(&members)?;
        work(py, || self.locked().add_crowd(members.iter().map(|&member| member as u32).collect()))
    }

    /// Further pairs, of about `at_once` candidates: the earlier and the later document (int64 each), and whether their
    /// fingerprints may not be near (bool). None if there are no more.
    fn step<'py>(&self, py: Python<'py>, at_once: usize) -> PyResult<Option<[Bound<'py, PyByteArray>; 3]>> {
        let found = work(py, || self.locked().step(at_once))?;
        Ok(found.map(|pairs| [array(py, &pairs.first), array(py, &pairs.second), array(py, &pairs.is_unsure)]))
    }

    /// Groups pairs of documents that match, the earlier and the later of each (int64 each). Returns for each whether the
    /// later one is led by the earlier one from now on, or, in chains, was not connected to it before: bool.
    fn match_pairs<'py>(
        &self,
        py: Python<'py>,
        first: PyBuffer<i64>,
        second: PyBuffer<i64>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let pairs = pairs_in(&first, &second)?;
        Ok(array(py, &work(py, || self.locked().match_pairs(pairs))?))
    }

    /// Whether the distances of pairs, given by their later documents, int64, count before texts are compared: bool. They
    /// do for documents that may have been compared with many in vain by then.
    fn are_limited<'py>(&self, py: Python<'py>, second: PyBuffer<i64>) -> PyResult<Bound<'py, PyByteArray>> {
        let seconds = numbers_in(&second)?.iter().map(|&second| second as u32);
        Ok(array(py, &work(py, || self.locked().are_limited(seconds))?))
    }

    /// Whether the later documents of pairs, int64, are compared with the earlier ones, at distances, uint16, of their
    /// fingerprints: bool. A document that was compared with many in vain is compared with nearer ones only.
    fn admit<'py>(
        &self,
        py: Python<'py>,
        second: PyBuffer<i64>,
        distance: PyBuffer<u16>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (second, distance) = (numbers_in(&second)?, numbers_in(&distance)?);
        let pairs = second.iter().zip(distance).map(|(&second, &distance)| (second as u32, distance));
        Ok(array(py, &work(py, || self.locked().admit(pairs))?))
    }

    /// Groups all pairs of a step, as of `match_pairs`, whose texts were compared or not admitted. distance: as of
    /// `admit`; is_match: uint8. Returns for each, uint8: 0 if its documents are led or connected already, or the later
    /// one is not admitted; 1 if it does not match; 2 if it joins groups.
    fn match_compared<'py>(
        &self,
        py: Python<'py>,
        first: PyBuffer<i64>,
        second: PyBuffer<i64>,
        distance: PyBuffer<u16>,
        is_match: PyBuffer<u8>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let (distance, is_match) = (numbers_in(&distance)?, numbers_in(&is_match)?);
        if [distance.len(), is_match.len()] != [first.item_count(); 2] {
            return Err(PyValueError::new_err("not arrays of one length"));
        }
        let compared = distance.iter().zip(is_match);
        let pairs = pairs_in(&first, &second)?.zip(compared).map(|([first, second], (&distance, &is_match))| {
            candidates::Compared { first, second, distance, is_match: is_match != 0 }
        });
        Ok(array(py, &work(py, || self.locked().match_compared(pairs))?))
    }

    /// Whether each document was not admitted to a comparison: bool.
    fn truncated<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        Ok(array(py, &work(py, || self.locked().truncated())?))
    }

    /// The document that leads each, int32, after the last step.
    fn leaders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        work(py, || self.locked().finish())?;
        Ok(array(py, self.locked().leaders()))
    }
}

impl Candidates {
    fn locked(&self) -> std::sync::MutexGuard<'_, candidates::Candidates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pairs of numbers of two arrays of one length. Raises ValueError for other arrays.
fn pairs_in<'a>(
    one: &'a PyBuffer<i64>,
    other: &'a PyBuffer<i64>,
) -> PyResult<impl Iterator<Item = [u32; 2]> + Send + 'a> {
    let (one, other) = (numbers_in(one)?, numbers_in(other)?);
    if one.len() != other.len() {
        return Err(PyValueError::new_err("not two arrays of one length"));
    }
    Ok(one.iter().zip(other).map(|(&one, &other)| [one as u32, other as u32]))
}

/// The drawers that a lookup of one fingerprint reads.
#[pyclass(frozen)]
struct Probes(Vec<drawers::Table>);

#[pymethods]
impl Probes {
    /// tables: the flag of each; the moves of its runs of bits: to the right, a mask, and to the left into a prefix of 40
    /// bits; and the bits of a prefix to flip, one at a time.
    #[new]
    fn new(tables: Vec<drawers::Table>) -> Self {
        Probes(tables)
    }

    /// The prefixes of one fingerprint, 5 bytes each.
    fn of<'py>(&self, py: Python<'py>, fingerprint: u64) -> PyResult<Bound<'py, PyList>> {
        let prefixes = drawers::probes(&self.0, fingerprint);
        PyList::new(py, prefixes.iter().map(|prefix| PyBytes::new(py, &prefix.to_be_bytes()[3..])))
    }
}

/// The bytes of rows of `size` bytes each. Raises ValueError for other arrays.
fn rows_in(array: &PyBuffer<u8>, size: usize) -> PyResult<&[u8]> {
    if !array.item_count().is_multiple_of(size) {
        return Err(PyValueError::new_err(format!("not an array of rows of {size} bytes")));
    }
    numbers_in(array)
}

/// Drawers of fingerprints in memory. Any thread may read and change them.
#[pyclass(frozen)]
struct Drawers(RwLock<drawers::Drawers>);

/// Distances by fingerprint, whether a drawer has more rows than the limit, rows read, and those of the largest drawer.
type Hits<'py> = (Bound<'py, PyDict>, bool, usize, usize);

/// Keys from each start on, within the bounds of an iterator of RocksDB: up to `limit` of each, for as many starts as have
/// `enough`. Also the offsets of each start's keys, one more than starts, and whether there were more.
#[pyfunction]
fn keys_from<'py>(
    iterator: &Bound<'py, PyAny>,
    starts: List<'_, 'py>,
    limit: usize,
    enough: usize,
) -> PyResult<rows::Keys<'py>> {
    rows::Rows::of(iterator)?.keys(starts, limit, enough)
}

/// For each start and prefix, up to `limit` rows from the start on with this prefix: keys and values.
#[pyfunction]
fn rows_from<'py>(
    iterator: &Bound<'py, PyAny>,
    ranges: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    limit: usize,
) -> PyResult<Vec<Vec<Bound<'py, PyTuple>>>> {
    let mut rows = rows::Rows::of(iterator)?;
    let of = |(start, prefix): &(Bound<'py, PyBytes>, Bound<'py, PyBytes>)| {
        rows.beginning(start.as_any(), prefix.as_bytes(), limit)
    };
    ranges.iter().map(of).collect()
}

#[pymethods]
impl Drawers {
    #[new]
    fn new() -> Self {
        Drawers(RwLock::default())
    }

    /// Adds rows: keys, uint8 (..., 13).
    fn add(&self, py: Python<'_>, keys: PyBuffer<u8>) -> PyResult<()> {
        let rows = rows_in(&keys, drawers::KEY_BYTES)?;
        work(py, || self.0.write().unwrap_or_else(PoisonError::into_inner).add(rows))
    }

    /// Removes rows: keys, uint8 (..., 13).
    fn remove(&self, py: Python<'_>, keys: PyBuffer<u8>) -> PyResult<()> {
        let rows = rows_in(&keys, drawers::KEY_BYTES)?;
        work(py, || self.0.write().unwrap_or_else(PoisonError::into_inner).remove(rows))
    }

    /// Which rows there are: keys, uint8 (n, 13) -> bool (n,).
    fn contain<'py>(&self, py: Python<'py>, keys: PyBuffer<u8>) -> PyResult<Bound<'py, PyByteArray>> {
        let rows = rows_in(&keys, drawers::KEY_BYTES)?;
        Ok(array(py, &self.read_by(py, |drawers| drawers.contain(rows))?))
    }

    /// The first `limit` rows of drawers, uint8 (m, 5), from number `first` on, of as many as have about `enough` rows:
    /// how many each has (int64), their fingerprints (uint64), and the numbers of drawers with more rows (int64).
    fn read<'py>(
        &self,
        py: Python<'py>,
        prefixes: PyBuffer<u8>,
        first: usize,
        limit: Option<usize>,
        enough: usize,
    ) -> PyResult<[Bound<'py, PyByteArray>; 3]> {
        let prefixes = rows_in(&prefixes, drawers::PREFIX_BYTES)?;
        let wanted = prefixes.get(first * drawers::PREFIX_BYTES..).unwrap_or_default();
        let part = self.read_by(py, |drawers| drawers.read(wanted, limit.unwrap_or(usize::MAX), enough))?;
        let truncated = part.truncated.iter().map(|place| place + first as i64).collect::<Vec<_>>();
        Ok([array(py, &part.lengths), array(py, &part.fingerprints), array(py, &truncated)])
    }

    /// All rows in order: the numbers of their prefixes (uint64), and their fingerprints (uint64).
    fn sorted<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyByteArray>; 2]> {
        let (prefixes, fingerprints) = self.read_by(py, drawers::Drawers::sorted)?;
        Ok([array(py, &prefixes), array(py, &fingerprints)])
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.read_by(py, drawers::Drawers::rows)
    }
}

impl Drawers {
    /// Fingerprints within `most` bits of one, among the first `limit` rows of each drawer. Keeps the interpreter: there
    /// is less to do than to give it up.
    fn find(&self, value: u64, prefixes: List<'_, '_>, most: u32, limit: Option<usize>) -> PyResult<drawers::Near> {
        let number = |prefix: Bound<'_, PyAny>| Ok(drawers::number(prefix.downcast::<PyBytes>()?.as_bytes()));
        let (py, numbers) = (prefixes.py(), prefixes.iter().map(number).collect::<PyResult<Vec<_>>>()?);
        let job = |drawers: &drawers::Drawers| drawers.near(value, &numbers, most, limit.unwrap_or(usize::MAX));
        match self.0.try_read() {
            Ok(drawers) => catch_unwind(AssertUnwindSafe(|| job(&drawers))).map_err(|_| failed(py)),
            Err(_) => self.read_by(py, job), // others change it just now
        }
    }

    fn read_by<T: Send>(&self, py: Python<'_>, job: impl FnOnce(&drawers::Drawers) -> T + Send) -> PyResult<T> {
        work(py, || job(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Drawers of fingerprints that do not change, for lookups of many at once.
#[pyclass(frozen)]
struct SortedDrawers {
    of: RwLock<sorted::SortedDrawers>,
    tables: usize,
    members: usize,
}

#[pymethods]
impl SortedDrawers {
    /// Raises ValueError for too many members.
    #[new]
    fn new(py: Python<'_>, tables: usize, members: usize) -> PyResult<Self> {
        if u32::try_from(members).is_err() {
            return Err(PyValueError::new_err("too many members"));
        }
        let of = RwLock::new(work(py, || sorted::SortedDrawers::new(tables, members))?);
        Ok(SortedDrawers { of, tables, members })
    }

    /// Puts members from a position on: the segments of each in all tables, uint32 (m, tables).
    fn put(&self, py: Python<'_>, first: usize, segments: PyBuffer<u32>) -> PyResult<()> {
        let segments = numbers_in(&segments)?;
        if self.tables == 0 || first + segments.len() / self.tables > self.members {
            return Err(PyValueError::new_err("there are no places for so many members"));
        }
        work(py, || self.of.write().unwrap_or_else(PoisonError::into_inner).put(first, segments))
    }

    /// Sorts a table after all members were put.
    fn sort(&self, py: Python<'_>, table: usize) -> PyResult<()> {
        if table >= self.tables {
            return Err(PyValueError::new_err("there is no such table"));
        }
        work(py, || self.of.write().unwrap_or_else(PoisonError::into_inner).sort(table))
    }

    /// The members in drawers of queries from number `first` on, of as many queries as read about `at_once` rows:
    /// numbers of queries and members (int64 each), ascending, each pair once; queries of which a drawer has more rows than
    /// the limit (int64); and the query after them. segments: uint32 (q, probes); tables: of each probe; compared: the
    /// fingerprints of members and queries (uint64 each) and how many of their bits may differ, or None.
    #[allow(clippy::too_many_arguments)]
    fn near<'py>(
        &self,
        py: Python<'py>,
        segments: PyBuffer<u32>,
        tables: Vec<usize>,
        limit: Option<usize>,
        compared: Option<(PyBuffer<u64>, PyBuffer<u64>, u32)>,
        first: usize,
        at_once: usize,
    ) -> PyResult<([Bound<'py, PyByteArray>; 3], usize)> {
        let segments = numbers_in(&segments)?;
        let compared = match &compared {
            Some((members, queries, most)) => {
                Some(sorted::Compared { members: numbers_in(members)?, queries: numbers_in(queries)?, most: *most })
            }
            None => None,
        };
        let is_odd = |each: &sorted::Compared| {
            each.members.len() != self.members || each.queries.len() * tables.len() != segments.len()
        };
        if tables.is_empty() || tables.iter().any(|&table| table >= self.tables) {
            return Err(PyValueError::new_err("there are no such tables"));
        }
        if !segments.len().is_multiple_of(tables.len()) || compared.as_ref().is_some_and(is_odd) {
            return Err(PyValueError::new_err("arrays of other lengths"));
        }
        let asked = sorted::Asked { segments, tables: &tables, limit: limit.unwrap_or(usize::MAX), compared };
        let near = || self.of.read().unwrap_or_else(PoisonError::into_inner).near(&asked, first, at_once);
        let (found, next) = work(py, near)?;
        Ok(([array(py, &found.query), array(py, &found.member), array(py, &found.full)], next))
    }
}

/// Rows of a table in memory. Any thread may read and change them; the interpreter is kept, as each call does little.
/// Cells are what Python makes of a value and a version: a class of its tuples.
#[pyclass(frozen)]
struct Records {
    rows: Mutex<records::Records>,
    cell: Py<PyType>,
}

/// A key, a value and a version.
type Copied<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

fn copied<'py>(py: Python<'py>, (key, cell): (&[u8], &records::Cell)) -> Copied<'py> {
    (PyBytes::new(py, key), PyBytes::new(py, &cell.value), cell.version)
}

/// The version of each row; None for all if there are none.
fn each_version(versions: Option<Vec<i64>>) -> Box<dyn Iterator<Item = Option<i64>>> {
    match versions {
        Some(versions) => Box::new(versions.into_iter().map(Some)),
        None => Box::new(std::iter::repeat(None)),
    }
}

#[pymethods]
impl Records {
    #[new]
    fn new(cell: Py<PyType>) -> Self {
        Records { rows: Mutex::default(), cell }
    }

    fn __len__(&self) -> usize {
        self.locked().len()
    }

    /// Bytes of all keys and values.
    fn size(&self) -> usize {
        self.locked().size()
    }

    /// The cells of keys, None where there is none.
    fn get<'py>(&self, py: Python<'py>, keys: Vec<Bound<'py, PyBytes>>) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let found = {
            let rows = self.locked();
            let cell = |key: &Bound<'py, PyBytes>| rows.get(key.as_bytes()).map(|cell| copied(py, (&[], cell)));
            keys.iter().map(cell).collect::<Vec<_>>()
        };
        found.into_iter().map(|cell| cell.map(|(_, value, version)| self.cell(value, version)).transpose()).collect()
    }

    /// Writes rows, keys and values, with the version of each, but for those with a higher version; None: all.
    fn put(&self, rows: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>, versions: Option<Vec<i64>>) {
        let mut held = self.locked();
        for ((key, value), version) in rows.iter().zip(each_version(versions)) {
            held.put(key.as_bytes(), value.as_bytes(), version);
        }
    }

    /// Removes the rows of keys, each up to a version; None: all.
    fn delete(&self, keys: Vec<Bound<'_, PyBytes>>, versions: Option<Vec<i64>>) {
        let mut held = self.locked();
        for (key, version) in keys.iter().zip(each_version(versions)) {
            held.delete(key.as_bytes(), version);
        }
    }

    /// For each prefix, up to `limit` rows whose keys begin with it, in order: a key and a cell each.
    fn scan<'py>(
        &self,
        py: Python<'py>,
        prefixes: Vec<Bound<'py, PyBytes>>,
        limit: usize,
    ) -> PyResult<Vec<Vec<Bound<'py, PyTuple>>>> {
        prefixes.iter().map(|prefix| self.beginning(py, prefix.as_bytes(), limit)).collect()
    }

    /// Up to `most` rows with keys from `start` until before `stop`, which is empty for the end.
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: &[u8],
        stop: &[u8],
        most: usize,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let is_within = |row: &(&[u8], &records::Cell)| stop.is_empty() || row.0 < stop;
        let found = {
            let rows = self.locked();
            rows.from(start).take_while(is_within).take(most).map(|row| copied(py, row)).collect::<Vec<_>>()
        };
        self.rows(found)
    }
}

impl Records {
    /// To be held only while no object that may have a finalizer is made.
    fn locked(&self) -> std::sync::MutexGuard<'_, records::Records> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beginning<'py>(&self, py: Python<'py>, prefix: &[u8], limit: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let found = self.locked().beginning(prefix).take(limit).map(|row| copied(py, row)).collect::<Vec<_>>();
        self.rows(found)
    }

    fn rows<'py>(&self, found: Vec<Copied<'py>>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let row = |(key, value, version): Copied<'py>| {
            PyTuple::new(key.py(), [key.clone().into_any(), self.cell(value, version)?])
        };
        found.into_iter().map(row).collect()
    }

    fn cell<'py>(&self, value: Bound<'py, PyBytes>, version: i64) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let new = py.get_type::<PyTuple>().getattr(intern!(py, "__new__"))?; // the class's own is a function of Python
        new.call1((&self.cell, (value, version)))
    }
}

/// simhbase.stores.base.NearLimits.
type Limits<'py> =
    (u32, Option<usize>, usize, Bound<'py, PyFrozenSet>, Option<Bound<'py, PyAny>>, Bound<'py, PyBytes>, Option<usize>);
type Cells<'py> = Vec<Option<Bound<'py, PyAny>>>;
type Listed<'py> = (Hits<'py>, Bound<'py, PyDict>, Bound<'py, PyDict>);

/// What a lookup finds: distances of near fingerprints, without hidden ones; their rows in the table of listings; and by
/// the key of each its document's row, a key and a cell, or None. scan: rows whose keys begin with a prefix; get: cells.
fn listed<'py>(
    py: Python<'py>,
    near: &drawers::Near,
    (_, _, _, hidden, document_key, of, enough): &Limits<'py>,
    mut scan: impl FnMut(&[u8]) -> PyResult<Vec<Bound<'py, PyTuple>>>,
    get: impl FnOnce(Vec<Bound<'py, PyBytes>>) -> PyResult<Cells<'py>>,
) -> PyResult<Listed<'py>> {
    let (found, rows_of, stored) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    let (mut keys, mut documents, mut read) = (vec![], vec![], 0);
    for &(fingerprint, bits) in &near.bits {
        if enough.is_some_and(|enough| read > enough) {
            break; // whoever asks will ask for all of it in another way
        }
        if !hidden.is_empty() && hidden.contains(fingerprint)? {
            continue;
        }
        found.set_item(fingerprint, bits)?;
        let rows = scan(&[&fingerprint.to_be_bytes(), of.as_bytes()].concat())?;
        read += rows.len();
        if let Some(document_key) = document_key {
            for row in &rows {
                let key = row.get_item(0)?.downcast_into::<PyBytes>()?;
                let id = PyBytes::new(py, &key.as_bytes()[size_of::<u64>()..]);
                documents.push(document_key.call1((id,))?.downcast_into::<PyBytes>()?);
                keys.push(key);
            }
        }
        rows_of.set_item(fingerprint, rows)?;
    }
    if !keys.is_empty() {
        for ((key, document), cell) in keys.iter().zip(&documents).zip(get(documents.clone())?) {
            stored.set_item(key, cell.map(|cell| (document, cell)))?;
        }
    }
    Ok(((found, near.truncated, near.rows, near.largest), rows_of, stored))
}

/// What a lookup reads in memory.
#[pyfunction]
fn near_in_memory<'py>(
    drawers: &Drawers,
    listings: &Records,
    documents: &Records,
    value: u64,
    prefixes: List<'_, 'py>,
    limits: Limits<'py>,
) -> PyResult<Listed<'py>> {
    let (py, near) = (prefixes.py(), drawers.find(value, prefixes, limits.0, limits.1)?);
    let scan = |prefix: &[u8]| listings.beginning(py, prefix, limits.2);
    listed(py, &near, &limits, scan, |keys| documents.get(py, keys))
}

/// What a lookup reads in RocksDB. drawers: iterates in them; listings: makes an iterator of that table; documents: gives
/// the values of keys, or None; cell: makes one of a value.
#[pyfunction]
fn near_in_rocksdb<'py>(
    drawers: &Bound<'py, PyAny>,
    listings: &Bound<'py, PyAny>,
    documents: &Bound<'py, PyAny>,
    cell: &Bound<'py, PyAny>,
    value: u64,
    prefixes: List<'_, 'py>,
    limits: Limits<'py>,
) -> PyResult<Listed<'py>> {
    let py = prefixes.py();
    let near = rows::Rows::of(drawers)?.near(value, prefixes, limits.0, limits.1.unwrap_or(usize::MAX))?;
    let mut rows = None;
    let scan = |prefix: &[u8]| {
        let rows = match &mut rows {
            Some(rows) => rows,
            none => none.insert(rows::Rows::of(&listings.call0()?)?),
        };
        let found = rows.beginning(PyBytes::new(py, prefix).as_any(), prefix, limits.2)?;
        let row = |row: Bound<'py, PyTuple>| PyTuple::new(py, [row.get_item(0)?, cell.call1((row.get_item(1)?,))?]);
        found.into_iter().map(row).collect()
    };
    let get = |keys: Vec<Bound<'py, PyBytes>>| {
        let values = documents.call1((keys,))?;
        let cells = values.downcast::<PyList>()?.iter();
        cells.map(|value| if value.is_none() { Ok(None) } else { cell.call1((value,)).map(Some) }).collect()
    };
    listed(py, &near, &limits, scan, get)
}

type Sketches<'a> = &'a PyBuffer<u8>;

/// The rows of two arrays of sketches of one shape, pair by pair: their first `size` bytes and the rest. Raises
/// ValueError for other arrays.
fn each_pair<'py, T: Copy + Send>(
    py: Python<'py>,
    arrays: [Sketches<'_>; 2],
    size: usize,
    compared: impl Fn([(&[u8], &[u8]); 2]) -> T + Sync,
) -> PyResult<Bound<'py, PyByteArray>> {
    let [one, other] = arrays;
    let bytes = one.shape().last().copied().unwrap_or(0);
    let is_one_shape = one.dimensions() == 2 && one.shape() == other.shape();
    if !is_one_shape || !one.is_c_contiguous() || !other.is_c_contiguous() || bytes < size || bytes == 0 {
        return Err(PyValueError::new_err("sketches must be two contiguous arrays of one shape"));
    }
    // SAFETY: the buffers keep the memory; callers do not write to it.
    let of = |array: Sketches<'_>| unsafe {
        std::slice::from_raw_parts(array.buf_ptr().cast::<u8>().cast_const(), array.item_count())
    };
    let (a, b) = (of(one).chunks_exact(bytes), of(other).chunks_exact(bytes));
    let found = work(py, || a.zip(b).map(|(a, b)| compared([a.split_at(size), b.split_at(size)])).collect::<Vec<_>>())?;
    Ok(array(py, &found))
}

/// Number of differing slots of n pairs of sketches, int64; slots + 1 if bytes differ that come behind the slots and
/// `left_out` others.
#[pyfunction]
fn mismatches<'py>(
    py: Python<'py>,
    one: PyBuffer<u8>,
    other: PyBuffer<u8>,
    slots: usize,
    bits: u32,
    left_out: usize,
) -> PyResult<Bound<'py, PyByteArray>> {
    each_pair(py, [&one, &other], slots * bits as usize / 8, |pair| mismatches_of(pair, slots, bits, left_out))
}

fn mismatches_of(
    [(a, more_of_a), (b, more_of_b)]: [(&[u8], &[u8]); 2],
    slots: usize,
    bits: u32,
    left_out: usize,
) -> i64 {
    match more_of_a[left_out..] == more_of_b[left_out..] {
        true => near::mismatches(a, b, bits),
        false => slots as i64 + 1,
    }
}

/// `mismatches` of two sketches. Keeps the interpreter: there is less to do than to give it up.
#[pyfunction]
fn mismatches_between(one: &[u8], other: &[u8], slots: usize, bits: u32, left_out: usize) -> PyResult<i64> {
    let size = slots * bits as usize / 8;
    if one.len() != other.len() || one.len() < size + left_out {
        return Err(PyValueError::new_err("sketches must have one length"));
    }
    Ok(mismatches_of([one.split_at(size), other.split_at(size)], slots, bits, left_out))
}

/// Whether n pairs of sketches agree in a band of `rows` slots, and in none before it: bool.
#[pyfunction]
fn meet_first<'py>(
    py: Python<'py>,
    one: PyBuffer<u8>,
    other: PyBuffer<u8>,
    bits: usize,
    rows: usize,
    band: usize,
) -> PyResult<Bound<'py, PyByteArray>> {
    let size = ((band + 1) * rows * bits).div_ceil(8);
    let bands = near::Bands { rows, bits };
    each_pair(py, [&one, &other], size, |[(a, _), (b, _)]| bands.meet_first(a, b, band))
}

/// The drawers of n sketches by `count` bands of `rows` slots from band `first` on: uint32 (n, count). Raises ValueError for
/// other arrays.
#[pyfunction]
fn segments<'py>(
    py: Python<'py>,
    sketches: PyBuffer<u8>,
    bits: usize,
    rows: usize,
    first: usize,
    count: usize,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (bands, end) = (near::Bands { rows, bits }, first + count);
    let bytes = sketches.shape().last().copied().unwrap_or(0);
    let is_empty = sketches.item_count() == 0;
    if sketches.dimensions() != 2 || !is_empty && 8 * bytes < end * rows * bits {
        return Err(PyValueError::new_err("sketches must be rows that hold the slots of all bands"));
    }
    let rows = numbers_in(&sketches)?.chunks_exact(bytes.max(1));
    let of_all = || rows.flat_map(|row| (first..end).map(|band| bands.segment(row, band))).collect::<Vec<_>>();
    Ok(array(py, &work(py, of_all)?))
}

/// Counts the texts that contain each word.
#[pyfunction]
fn document_frequencies<'py>(
    py: Python<'py>,
    texts: List<'_, 'py>,
    dictionary: &Dictionary,
) -> PyResult<Bound<'py, PyDict>> {
    let texts = read(texts)?;
    let counts = work(py, || {
        let mut counts: HashMap<String, u64> = HashMap::new();
        let (mut normal, mut cutter) = (Normal::default(), words::Cutter::default());
        for text in texts.iter() {
            let mut seen: HashSet<Vec<u32>> = HashSet::new();
            for piece in pieces(text) {
                normal::normalise(piece, None, &mut normal);
                cutter.cut(&normal, &dictionary.0);
                seen.extend(
                    cutter.tokens.iter().map(|token| normal.points[token.0 as usize..token.1 as usize].to_vec()),
                );
            }
            seen.iter().for_each(|word| *counts.entry(said(word)).or_default() += 1);
        }
        counts
    })?;
    let found = PyDict::new(py);
    counts.iter().try_for_each(|(word, count)| found.set_item(word, count))?;
    Ok(found)
}

/// Answers in Thrift's binary form on one connection. texts: maps to texts are allowed.
#[pyclass]
struct ThriftAnswers(thrift::Answers);

#[pymethods]
impl ThriftAnswers {
    #[new]
    fn new(texts: bool) -> Self {
        ThriftAnswers(thrift::Answers::new(texts))
    }

    /// Takes the next bytes. Raises ValueError for those that would hold their reader.
    fn follow(&mut self, part: &[u8]) -> PyResult<()> {
        self.0.follow(part).map_err(PyValueError::new_err)
    }
}

/// A sum over the normal forms and properties of all code points: that of the Unicode version in unicode.py.
#[pyfunction]
fn unicode_sum(py: Python<'_>) -> PyResult<u64> {
    work(py, normal::sum_of_all)
}

#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    std::panic::set_hook(Box::new(|panic| PANIC.set(panic.to_string().replace('\n', " "))));
    module.add("DICTIONARY", dictionary::VERSION)?;
    module.add_class::<Dictionary>()?;
    module.add_class::<Drawers>()?;
    module.add_class::<Probes>()?;
    module.add_class::<SortedDrawers>()?;
    module.add_class::<Records>()?;
    module.add_class::<Candidates>()?;
    module.add_class::<Form>()?;
    module.add_class::<Boilerplate>()?;
    module.add_class::<Units>()?;
    module.add_class::<Join>()?;
    module.add_class::<Mates>()?;
    module.add_class::<Pipeline>()?;
    module.add_class::<Sets>()?;
    module.add_class::<ThriftAnswers>()?;
    module.add_function(wrap_pyfunction!(build_dictionary, module)?)?;
    module.add_function(wrap_pyfunction!(document_frequencies, module)?)?;
    module.add_function(wrap_pyfunction!(mismatches, module)?)?;
    module.add_function(wrap_pyfunction!(mismatches_between, module)?)?;
    module.add_function(wrap_pyfunction!(meet_first, module)?)?;
    module.add_function(wrap_pyfunction!(near_in_rocksdb, module)?)?;
    module.add_function(wrap_pyfunction!(near_in_memory, module)?)?;
    module.add_function(wrap_pyfunction!(keys_from, module)?)?;
    module.add_function(wrap_pyfunction!(rows_from, module)?)?;
    module.add_function(wrap_pyfunction!(segments, module)?)?;
    module.add_function(wrap_pyfunction!(unicode_sum, module)?)
}
