//! Tables by code point: blocks of 128, of which equal ones are held once. And a way to read from large tables without
//! waiting.

/// Makes the processor fetch what is read soon: reads of large tables take long, but many at once take no longer.
#[inline(always)]
pub fn fetch<T>(items: &[T], place: usize) {
    let at = items.as_ptr().wrapping_add(place);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: it reads nothing that the program would see, and is allowed for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

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
