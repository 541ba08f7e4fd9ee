//! Tables by code point: blocks of 128, of which equal ones are held once.

pub struct Table<T: 'static> {
    pub blocks: &'static [u16],
    pub values: &'static [T],
}

impl<T: Copy> Table<T> {
    #[inline(always)]
    pub fn get(&self, point: u32) -> T {
        let block = self.blocks[(point >> 7) as usize] as usize;
        self.values[block << 7 | (point & 127) as usize]
    }
}
