//! Where the columns of a Parquet file are, by its footer, and how large a page is, by its header: fields in Thrift's
//! compact form. Nothing else of them is kept, and what readers may take otherwise is refused.

use std::collections::HashSet;

use self::Damage::{Ambiguous, Other, Short};

const COLUMNS: i16 = 1;
const SCHEMA: i16 = 2;
const COLUMN: i16 = 3;
const ROW_GROUPS: i16 = 4;
const PACKED: i16 = 7;
const DATA_PAGE: i16 = 9;
const DICTIONARY_PAGE: i16 = 11;

// Of a page: its kind, its sizes, and what tells the number of its values by its kind: data, dictionary, data of version 2.
const KIND: i16 = 1;
const PAGE_PACKED: i16 = 3;
const OF_KIND: [(i32, i16); 3] = [(0, 5), (2, 7), (3, 8)];
const VALUES: i16 = 1;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;
const INTEGERS: std::ops::RangeInclusive<u8> = 4..=6;
const INTEGER: u8 = 5;
const LONG: u8 = 6;

const DEEPEST: usize = 64; // as in readers, whose own limit this is

/// schema: number of its elements. columns: number of those of each group of rows. places: where each of these begins and
/// ends, from 0 to 0 if it has no values.
#[derive(Default)]
pub struct Footer {
    pub schema: usize,
    pub columns: Vec<u32>,
    pub places: Vec<i64>,
}

/// Sizes in bytes. values: 0 if the header does not tell their number. header: its own size.
pub struct Page {
    pub kind: i32,
    pub unpacked: i32,
    pub packed: i32,
    pub values: i32,
    pub header: usize,
}

/// Why something cannot be read. Ambiguous: some reader may.
pub enum Damage {
    Short,
    Ambiguous(&'static str),
    Other(&'static str),
}
type Read<T> = Result<T, Damage>;

impl Footer {
    /// most: elements of all lists that are read, as readers hold them in memory.
    pub fn read(data: &[u8], most: usize) -> Read<Footer> {
        let mut footer = Footer::default();
        let mut reader = Reader { data, elements: 0, most };
        let mut groups = false;
        reader.fields(0, &mut |reader, number, kind| match number {
            SCHEMA => {
                footer.schema = reader.structs(kind)?;
                (0..footer.schema).try_for_each(|_| reader.skip(STRUCT, 1))
            }
            ROW_GROUPS => {
                groups = true;
                (0..reader.structs(kind)?).try_for_each(|_| footer.group(reader))
            }
            _ => reader.skip(kind, 0),
        })?;
        groups.then_some(footer).ok_or(Other("it has no groups of rows"))
    }

    fn group(&mut self, reader: &mut Reader) -> Read<()> {
        let mut columns = None;
        reader.fields(1, &mut |reader, number, kind| {
            if number != COLUMNS {
                return reader.skip(kind, 1);
            }
            let count = reader.structs(kind)?;
            columns = Some(count as u32);
            (0..count).try_for_each(|_| self.column(reader))
        })?;
        self.columns.push(columns.ok_or(Other("a group of rows has no columns"))?);
        Ok(())
    }

    fn column(&mut self, reader: &mut Reader) -> Read<()> {
        let mut place = [None; 3]; // its size, and where its pages begin
        reader.fields(2, &mut |reader, number, kind| {
            if number != COLUMN {
                return reader.skip(kind, 2);
            }
            require(kind, STRUCT)?;
            reader.fields(3, &mut |reader, number, kind| {
                let known = [PACKED, DATA_PAGE, DICTIONARY_PAGE].iter().position(|known| *known == number);
                let Some(known) = known else {
                    return reader.skip(kind, 3);
                };
                place[known] = Some(reader.long(kind)?);
                Ok(())
            })
        })?;
        let packed = place[0].ok_or(Other("a column has no place"))?.max(0);
        let begin = place[1..].iter().flatten().copied().filter(|begin| *begin > 0).min();
        self.places.extend(begin.map_or([0, 0], |begin| [begin, begin.saturating_add(packed)]));
        Ok(())
    }
}

impl Page {
    pub fn read(data: &[u8]) -> Read<Page> {
        let mut reader = Reader { data, elements: 0, most: usize::MAX };
        let (mut found, mut values) = ([None; 3], [0; 3]); // kind and sizes; values by the place in OF_KIND
        reader.fields(0, &mut |reader, number, kind| {
            if (KIND..=PAGE_PACKED).contains(&number) {
                found[(number - KIND) as usize] = Some(reader.int(kind)?);
                return Ok(());
            }
            let Some(place) = OF_KIND.iter().position(|(_, field)| *field == number) else {
                return reader.skip(kind, 0);
            };
            require(kind, STRUCT)?;
            reader.fields(1, &mut |reader, number, kind| {
                if number != VALUES {
                    return reader.skip(kind, 1);
                }
                values[place] = reader.int(kind)?;
                Ok(())
            })
        })?;
        let [Some(kind), Some(unpacked), Some(packed)] = found else {
            return Err(Other("it has no kind or no size"));
        };
        if unpacked.min(packed) < 0 {
            return Err(Other("a size is negative"));
        }
        let place = OF_KIND.iter().position(|(of, _)| *of == kind);
        let values = place.map_or(0, |place| values[place]);
        Ok(Page { kind, unpacked, packed, values, header: data.len() - reader.data.len() })
    }
}

fn require(kind: u8, expected: u8) -> Read<()> {
    (kind == expected).then_some(()).ok_or(Other("a value is of another kind"))
}

struct Reader<'a> {
    data: &'a [u8],
    elements: usize,
    most: usize,
}

impl Reader<'_> {
    /// Calls `each` with the number and kind of each field of a struct. Numbers have 16 bits, as in readers; of a field
    /// that is there twice these take one or the other.
    fn fields(&mut self, depth: usize, each: &mut dyn FnMut(&mut Self, i16, u8) -> Read<()>) -> Read<()> {
        let (mut number, mut low, mut others) = (0i16, 0u64, HashSet::new());
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            if depth > DEEPEST {
                return Err(Other("it is too deep"));
            }
            number = match head >> 4 {
                0 => self.integer()? as i16,
                more => number.wrapping_add(more.into()),
            };
            let is_new = match number {
                0..64 => {
                    let before = low;
                    low |= 1 << number;
                    low != before
                }
                _ => others.insert(number),
            };
            if !is_new {
                return Err(Ambiguous("a field is there twice"));
            }
            each(self, number, head & 15)?;
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Read<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            _ => self.skip_value(kind, depth),
        }
    }

    /// Skips an element, or a value of a field that is no boolean.
    fn skip_value(&mut self, kind: u8, depth: usize) -> Read<()> {
        if depth > DEEPEST {
            return Err(Other("it is too deep"));
        }
        match kind {
            TRUE | FALSE | BYTE => self.byte().map(drop),
            DOUBLE => self.pass(8),
            UUID => self.pass(16),
            BINARY => {
                let size = self.size()?;
                self.pass(size)
            }
            LIST | SET => {
                let (of, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_value(of, depth + 1))
            }
            MAP => {
                let count = self.size()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_value(kinds >> 4, depth + 1)?;
                    self.skip_value(kinds & 15, depth + 1)
                })
            }
            STRUCT => self.fields(depth + 1, &mut |reader, _, kind| reader.skip(kind, depth + 1)),
            _ if INTEGERS.contains(&kind) => self.integer().map(drop),
            _ => Err(Other("a value is of no kind")),
        }
    }

    /// The number of structs of a list, which follow. Readers take its elements for structs, whatever it says.
    fn structs(&mut self, kind: u8) -> Read<usize> {
        require(kind, LIST)?;
        let (of, count) = self.list()?;
        if count > 0 {
            require(of, STRUCT)?;
        }
        Ok(count)
    }

    /// The kind and number of elements.
    fn list(&mut self) -> Read<(u8, usize)> {
        let head = self.byte()?;
        let count = if head >> 4 < 15 { (head >> 4).into() } else { self.size()? };
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.most {
            return Err(Other("its lists are too long"));
        }
        Ok((head & 15, count))
    }

    fn long(&mut self, kind: u8) -> Read<i64> {
        require(kind, LONG)?;
        self.integer()
    }

    /// Of a longer number readers keep some 32 bits or others.
    fn int(&mut self, kind: u8) -> Read<i32> {
        require(kind, INTEGER)?;
        i32::try_from(self.integer()?).map_err(|_| Ambiguous("a number is too large"))
    }

    fn integer(&mut self) -> Read<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn size(&mut self) -> Read<usize> {
        let size = self.varint()? as u32;
        (size >> 31 == 0).then_some(size as usize).ok_or(Other("a size is negative"))
    }

    fn varint(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(Other("a number is too long"))
    }

    fn byte(&mut self) -> Read<u8> {
        let (byte, rest) = self.data.split_first().ok_or(Short)?;
        self.data = rest;
        Ok(*byte)
    }

    fn pass(&mut self, bytes: usize) -> Read<()> {
        self.data = self.data.get(bytes..).ok_or(Short)?;
        Ok(())
    }
}
