//! Tables by code point: blocks of 128, of which equal ones are held once. And ways to read from large tables without
//! waiting.

#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20; // bytes

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

/// An empty vector with room for so many items, in large pages where the system has these. The processor holds where a
/// few thousand pages lie, and looks up the others: of a table of 256 MB in small pages nearly all.
pub fn with_room<T>(count: usize) -> Vec<T> {
    let room = Vec::<T>::with_capacity(count);
    #[cfg(target_os = "linux")]
    {
        let begin = room.as_ptr() as usize;
        let first = begin.next_multiple_of(LARGE_PAGE);
        let end = (begin + std::mem::size_of::<T>() * count) / LARGE_PAGE * LARGE_PAGE;
        if first < end {
            // SAFETY: the pages lie in the room, and no value changes. A system that has no large ones refuses.
            unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
        }
    }
    room
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
