//! Strings of Python as code points, and back. Surrogates stay.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

const AT_ONCE: isize = 200_000; // characters read while the interpreter waits: less than a millisecond

/// Code points of some texts, one text after the other.
#[derive(Default)]
pub struct Texts {
    points: Vec<u32>,
    ends: Vec<usize>,
}

impl Texts {
    pub fn read(texts: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let mut read = Texts::default();
        let length = |text: &Bound<'_, PyAny>| text.len().unwrap_or_default();
        read.points.reserve(texts.iter().map(length).sum());
        for text in texts {
            append(text, &mut read.points)?;
            read.ends.push(read.points.len());
        }
        Ok(read)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.points[begin..end])
    }

    pub fn characters(&self) -> usize {
        self.points.len()
    }
}

pub fn points(text: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let mut points = vec![];
    append(text, &mut points)?;
    Ok(points)
}

fn append(text: &Bound<'_, PyAny>, points: &mut Vec<u32>) -> PyResult<()> {
    let Ok(text) = text.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("texts are strings, not {}", text.get_type().name()?)));
    };
    let py = text.py();
    // SAFETY: `text` is a string.
    let length = unsafe { ffi::PyUnicode_GetLength(text.as_ptr()) };
    if length <= AT_ONCE {
        return copy(text, length, points);
    }
    for begin in (0..length).step_by(AT_ONCE as usize) {
        let end = length.min(begin + AT_ONCE);
        // SAFETY: the slice lies in the string; a new reference or an exception is returned.
        let slice = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_Substring(text.as_ptr(), begin, end))? };
        copy(slice.cast::<PyString>()?, end - begin, points)?;
        py.detach(|| ()); // others go on
    }
    Ok(())
}

fn copy(text: &Bound<'_, PyString>, length: isize, points: &mut Vec<u32>) -> PyResult<()> {
    let room = length as usize;
    points.reserve(room);
    // SAFETY: the vector has room for `length` code points, which the call writes unless it returns null.
    unsafe {
        let to = points.as_mut_ptr().add(points.len());
        if ffi::PyUnicode_AsUCS4(text.as_ptr(), to, length, 0).is_null() {
            return Err(PyErr::fetch(text.py()));
        }
        points.set_len(points.len() + room);
    }
    Ok(())
}

pub fn string<'py>(py: Python<'py>, points: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    let mut order = if cfg!(target_endian = "little") { -1 } else { 1 };
    let bytes = std::mem::size_of_val(points) as isize;
    // SAFETY: the call reads `bytes` bytes, and returns a new reference or an exception.
    unsafe {
        let made = ffi::PyUnicode_DecodeUTF32(points.as_ptr().cast(), bytes, c"surrogatepass".as_ptr(), &mut order);
        Bound::from_owned_ptr_or_err(py, made)
    }
}
