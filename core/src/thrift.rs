//! Answers in Thrift's binary form, followed as their parts arrive. Readers count the elements of a list one by one, also
//! those of a kind that has no bytes: a list of five bytes says that it has two thousand million of them.

const STOP: u8 = 0;
const STRING: u8 = 11;
const STRUCT: u8 = 12;
const MAP: u8 = 13;
const SET: u8 = 14;
const LIST: u8 = 15;

const DEEPEST: usize = 64; // as in the reader

/// What is open: the fields of a structure, or elements that are left, of two kinds in turn, of a map its values and keys.
enum Open {
    Fields,
    Elements { kinds: [u8; 2], left: u64 },
}

/// What comes next. Nothing: the end of a value.
enum Next {
    Version,
    Name,
    Kind,
    Number(u8),
    Size,
    Elements,
    Pairs,
    Nothing,
}

/// texts: maps to texts are allowed. The reader takes these texts for something else where it expects that, whatever the
/// keys are.
pub struct Answers {
    texts: bool,
    open: Vec<Open>,
    next: Next,
    number: u64,
    digits: usize,
    passed: u64,
}

impl Answers {
    pub fn new(texts: bool) -> Self {
        Answers { texts, open: Vec::new(), next: Next::Version, number: 0, digits: 0, passed: 0 }
    }

    /// Takes the next part. An error says what no reader should see.
    pub fn follow(&mut self, mut data: &[u8]) -> Result<(), &'static str> {
        loop {
            let passed = self.passed.min(data.len() as u64);
            self.passed -= passed;
            data = &data[passed as usize..];
            if self.passed > 0 {
                return Ok(());
            }
            let Some(number) = self.head(&mut data) else { return Ok(()) };
            self.step(number)?;
        }
    }

    /// The number that is next, once all its bytes are there.
    fn head(&mut self, data: &mut &[u8]) -> Option<u64> {
        let size = match self.next {
            Next::Nothing => 0,
            Next::Kind => 1,
            Next::Number(_) => 2,
            Next::Version | Next::Name | Next::Size => 4,
            Next::Elements => 5,
            Next::Pairs => 6,
        };
        while self.digits < size {
            let (byte, rest) = data.split_first()?;
            (self.number, self.digits, *data) = (self.number << 8 | u64::from(*byte), self.digits + 1, rest);
        }
        self.digits = 0;
        Some(std::mem::take(&mut self.number))
    }

    fn step(&mut self, number: u64) -> Result<(), &'static str> {
        let size = u64::try_from(number as i32).unwrap_or(0); // less than 0 is none, as for the reader
        match self.next {
            Next::Version => self.next = Next::Name,
            Next::Name => {
                self.passed = size + 4; // and a number
                self.enter(Open::Fields)?;
                self.next = Next::Kind;
            }
            Next::Kind if number as u8 == STOP => {
                self.open.pop();
                self.next = Next::Nothing;
            }
            Next::Kind => self.next = Next::Number(number as u8),
            Next::Number(kind) => self.value(kind)?,
            Next::Size => self.pass(size),
            Next::Elements => self.elements([(number >> 32) as u8; 2], size)?,
            Next::Pairs => {
                let kinds = [(number >> 32) as u8, (number >> 40) as u8];
                if kinds[0] == STRING && !self.texts {
                    return Err("a map to texts");
                }
                self.elements(kinds, 2 * size)?;
            }
            Next::Nothing => match self.open.last_mut() {
                None => self.next = Next::Version,
                Some(Open::Fields) => self.next = Next::Kind,
                Some(Open::Elements { left: 0, .. }) => {
                    self.open.pop();
                }
                Some(Open::Elements { kinds, left }) => {
                    *left -= 1;
                    let kind = kinds[*left as usize % 2];
                    self.value(kind)?;
                }
            },
        }
        Ok(())
    }

    fn value(&mut self, kind: u8) -> Result<(), &'static str> {
        match kind {
            2 | 3 => self.pass(1), // a bool, a byte
            6 => self.pass(2),
            8 => self.pass(4),
            4 | 10 => self.pass(8), // a double, a long
            STRING => self.next = Next::Size,
            STRUCT => {
                self.enter(Open::Fields)?;
                self.next = Next::Kind;
            }
            MAP => self.next = Next::Pairs,
            SET | LIST => self.next = Next::Elements,
            _ => return Err("a value of a kind that Thrift does not have"),
        }
        Ok(())
    }

    fn pass(&mut self, bytes: u64) {
        self.passed = bytes;
        self.next = Next::Nothing;
    }

    fn elements(&mut self, kinds: [u8; 2], left: u64) -> Result<(), &'static str> {
        self.next = Next::Nothing;
        self.enter(Open::Elements { kinds, left })
    }

    fn enter(&mut self, open: Open) -> Result<(), &'static str> {
        self.open.push(open);
        if self.open.len() > DEEPEST {
            return Err("values that are nested too deep");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"\x80\x01\0\x02\0\0\0\x01a\0\0\0\0";

    /// Followed in parts of each size.
    fn follow(fields: &[u8], texts: bool) -> Result<(), &'static str> {
        let answer = [HEAD, fields].concat();
        (1..=answer.len()).try_for_each(|size| {
            let mut answers = Answers::new(texts);
            answer.chunks(size).chain([HEAD]).try_for_each(|part| answers.follow(part))?;
            assert_eq!(answers.open.len(), 1, "the second answer is not where it begins");
            Ok(())
        })
    }

    #[test]
    fn values_of_all_kinds_are_followed_to_their_end() {
        let fields = [
            &b"\x02\0\x01\x01\x03\0\x02\x07\x06\0\x03\0\0\x08\0\x04\0\0\0\0\x0a\0\x05\0\0\0\0\0\0\0\0"[..],
            b"\x0b\0\x06\0\0\0\x02\x0f\x01\x0b\0\x07\xff\xff\xff\xff", // texts, one of fewer than no bytes
            b"\x0f\0\x08\x0c\0\0\0\x02\x02\0\x01\x01\0\0\x0e\0\x09\x02\0\0\0\x03\x01\x01\x01",
            b"\x0d\0\x0a\x0b\x08\0\0\0\x02\0\0\0\x01a\0\0\0\x01\0\0\0\0\0\0\0\x02",
            b"\x0d\0\x0b\0\0\0\0\0\0\x0f\0\x0c\x01\xff\xff\xff\xff\0", // of no kind, and nothing in them
        ];
        assert_eq!(follow(&fields.concat(), false), Ok(()));
    }

    #[test]
    fn elements_without_bytes_are_refused() {
        for kind in [0, 1, 5, 7, 9, 16, 17, 18, 200] {
            let list = [b"\x0f\0\x63".as_slice(), &[kind, 0x7f, 255, 255, 255]].concat();
            let map = [b"\x0d\0\x63".as_slice(), &[kind, kind, 0x7f, 255, 255, 255]].concat();
            assert!(follow(&list, true).is_err() && follow(&map, true).is_err());
        }
    }

    #[test]
    fn maps_to_texts_are_refused_where_the_reader_mistakes_them() {
        for (kind, key) in [(STRING, &b"\0\0\0\x01a"[..]), (3, b"a")] {
            let map = [b"\x0d\0\x01", &[kind][..], b"\x0b\0\0\0\x01", key, b"\0\0\0\x01b\0"].concat();
            assert_eq!(follow(&map, true), Ok(()));
            assert!(follow(&map, false).is_err());
        }
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(follow(&b"\x0c\0\x01".repeat(DEEPEST + 1), true).is_err());
    }
}
