//! Where the columns of a Parquet file are, by its footer, and how large a page is, by its header: fields in Thrift's
//! compact form. Nothing else of them is kept, and what readers may take otherwise is refused. Of pages whose texts have
//! their lengths in deltas, how many bytes these texts have: few bytes of a page may mean any number.

use std::collections::HashSet;

use self::Damage::{Ambiguous, Other, Short};

const COLUMNS: i16 = 1;
const SCHEMA: i16 = 2;
const COLUMN: i16 = 3;
const ROW_GROUPS: i16 = 4;
const NOTES: i16 = 5;
const NOTE: [i16; 2] = [1, 2]; // key and value
const ARROW: &[u8] = b"ARROW:schema";
const PACKED: i16 = 7;
const DATA_PAGE: i16 = 9;
const DICTIONARY_PAGE: i16 = 11;

// Of a page: its kind, its sizes, and what tells the number of its values by its kind: data, dictionary, data of version 2.
const KIND: i16 = 1;
const PAGE_PACKED: i16 = 3;
const OF_KIND: [(i32, i16); 3] = [(0, 5), (2, 7), (3, 8)];
const VALUES: i16 = 1;
const DATA: usize = 0; // places in OF_KIND
const DATA_2: usize = 2;
const ENCODING: i16 = 2;
const LEVELS: [i16; 2] = [3, 4]; // their encodings
const ENCODING_2: i16 = 4;
const LEVELS_2: [i16; 2] = [5, 6]; // their bytes
const IS_PACKED: i16 = 7;
const RLE: i32 = 3;
const DELTA_LENGTHS: i32 = 6;
const DELTA_TEXTS: i32 = 7;

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
/// ends, from 0 to 0 if it has no values. arrow: schemas of Arrow.
#[derive(Default)]
pub struct Footer<'a> {
    pub schema: usize,
    pub columns: Vec<u32>,
    pub places: Vec<i64>,
    pub arrow: Vec<&'a [u8]>,
}

/// Sizes in bytes. values: 0 if the header does not tell their number. header: its own size. deltas: None if the lengths of
/// its texts are no deltas.
pub struct Page {
    pub kind: i32,
    pub unpacked: i32,
    pub packed: i32,
    pub values: i32,
    pub header: usize,
    pub deltas: Option<Deltas>,
}

/// Of a page whose texts have their lengths in deltas. prefixes: texts begin with a part of the one before. levels: bytes
/// of levels, which are not packed; None if they are packed, each behind its size. packed: the rest is.
#[derive(Clone, Copy)]
pub struct Deltas {
    pub prefixes: bool,
    pub levels: Option<i32>,
    pub packed: bool,
}

/// Why something cannot be read. Ambiguous: some reader may.
pub enum Damage {
    Short,
    Ambiguous(&'static str),
    Other(&'static str),
}
type Read<T> = Result<T, Damage>;

impl<'a> Footer<'a> {
    /// most: elements of all lists that are read, as readers hold them in memory.
    pub fn read(data: &'a [u8], most: usize) -> Read<Footer<'a>> {
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
            NOTES => (0..reader.structs(kind)?).try_for_each(|_| footer.note(reader)),
            _ => reader.skip(kind, 0),
        })?;
        groups.then_some(footer).ok_or(Other("it has no groups of rows"))
    }

    fn note(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        let mut note = [&[][..]; 2];
        reader.fields(1, &mut |reader, number, kind| match NOTE.iter().position(|known| *known == number) {
            Some(place) => {
                require(kind, BINARY)?;
                note[place] = reader.binary()?;
                Ok(())
            }
            None => reader.skip(kind, 1),
        })?;
        if note[0] == ARROW {
            self.arrow.push(note[1]);
        }
        Ok(())
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
        let (mut encodings, mut levels, mut packed_2) = ([0; 3], [RLE; 2], true);
        let mut levels_2 = [0; 2];
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
                match (place, number) {
                    (_, VALUES) => values[place] = reader.int(kind)?,
                    (DATA, ENCODING) | (DATA_2, ENCODING_2) => encodings[place] = reader.int(kind)?,
                    (DATA, _) if LEVELS.contains(&number) => {
                        levels[(number - LEVELS[0]) as usize] = reader.int(kind)?
                    }
                    (DATA_2, _) if LEVELS_2.contains(&number) => {
                        levels_2[(number - LEVELS_2[0]) as usize] = reader.int(kind)?
                    }
                    (DATA_2, IS_PACKED) => packed_2 = kind == TRUE,
                    _ => return reader.skip(kind, 1),
                }
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
        let has_deltas = |place: &usize| [DELTA_LENGTHS, DELTA_TEXTS].contains(&encodings[*place]);
        let deltas = match place.filter(has_deltas) {
            Some(DATA) if levels != [RLE; 2] => return Err(Ambiguous("its levels are of another encoding")),
            Some(DATA_2) if levels_2[0].min(levels_2[1]) < 0 => return Err(Other("a size is negative")),
            Some(place) => Some(Deltas {
                prefixes: encodings[place] == DELTA_TEXTS,
                levels: (place == DATA_2).then_some(levels_2[0].saturating_add(levels_2[1])),
                packed: place == DATA || packed_2,
            }),
            None => None,
        };
        Ok(Page { kind, unpacked, packed, values, header: data.len() - reader.data.len(), deltas })
    }
}

/// The bytes of the beginnings that texts share with those before them, in a page whose lengths are deltas, without its
/// levels; 0 if not `prefixes`. Readers hold all lengths at once: more than `values` are refused, as is what they may read
/// otherwise.
pub fn shared_bytes(data: &[u8], prefixes: bool, values: u32) -> Read<u64> {
    let mut reader = Reader { data, elements: 0, most: usize::MAX };
    let shared = reader.sum_of_deltas(values)?;
    if prefixes {
        reader.sum_of_deltas(values)?;
        return Ok(shared);
    }
    Ok(0)
}

fn require(kind: u8, expected: u8) -> Read<()> {
    (kind == expected).then_some(()).ok_or(Other("a value is of another kind"))
}

/// A length, which no reader takes if it is negative or has more than 31 bits.
fn length(number: i64) -> Read<u64> {
    i32::try_from(number).ok().and_then(|length| u64::try_from(length).ok()).ok_or(Ambiguous("a length is too large"))
}

/// The number of at most 32 bits that begins at a bit.
fn bits_at(data: &[u8], begin: usize, bits: usize) -> u64 {
    let mut eight = [0; 8];
    let part = data.get(begin / 8..).unwrap_or(&[]);
    let size = part.len().min(8);
    eight[..size].copy_from_slice(&part[..size]);
    u64::from_le_bytes(eight) >> (begin % 8) & ((1 << bits) - 1)
}

struct Reader<'a> {
    data: &'a [u8],
    elements: usize,
    most: usize,
}

impl<'a> Reader<'a> {
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
            BINARY => self.binary().map(drop),
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

    /// The sum of numbers that are packed by their differences, of which there are at most so many. Passes over them.
    fn sum_of_deltas(&mut self, most: u32) -> Read<u64> {
        let (block, parts, total) = (self.varint()?, self.varint()?, self.varint()?);
        let mut number = self.integer()?;
        if total > most.into() {
            return Err(Ambiguous("it has more lengths than values"));
        }
        if parts == 0 || block == 0 || block % parts != 0 || block / parts % 32 != 0 || block >> 32 != 0 {
            return Err(Ambiguous("its lengths are in no blocks"));
        }
        let of_part = block / parts;
        let (mut sum, mut left) = (length(number)? * u64::from(total > 0), total.saturating_sub(1));
        while left > 0 {
            let least = self.integer()?;
            let widths = self.data;
            self.pass(parts as usize)?;
            for width in widths[..parts as usize].iter().take(left.div_ceil(of_part) as usize) {
                let bits = usize::from(*width);
                if bits > 32 {
                    return Err(Ambiguous("a length has more than 32 bits"));
                }
                let count = left.min(of_part);
                let packed = self.data;
                let bytes = (of_part as usize / 8).checked_mul(bits).ok_or(Short)?;
                if packed.len() < (count as usize * bits).div_ceil(8) {
                    return Err(Short);
                }
                self.data = &packed[bytes.min(packed.len())..];
                for place in 0..count as usize {
                    number += least + bits_at(packed, place * bits, bits) as i64;
                    sum += length(number)?;
                }
                left -= count;
            }
        }
        Ok(sum)
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

    fn binary(&mut self) -> Read<&'a [u8]> {
        let (size, data) = (self.size()?, self.data);
        self.pass(size)?;
        Ok(&data[..size])
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
