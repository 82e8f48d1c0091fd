//! Emergency allocator for when the host program runs out of memory. Rust ends the process when an allocation
//! fails that no caller expects to fail, and the process is not ours: then allocations come from
//! a reserve, and no new connection is put under a controller until all of it is given back. Large ones
//! fail, which their callers survive.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the reserve. The system has no page of it before it is used.
const RESERVE_BYTES: usize = 4 << 20;

/// Larger allocations are never taken from it: what is larger may fail. The curve of Verus is 320 kB.
const MAX_BYTES: usize = 512 << 10;

/// No type of ours is aligned to more.
const ALIGN: usize = 64;

#[repr(C, align(64))]
struct ReserveMemory(UnsafeCell<[u8; RESERVE_BYTES]>);

// SAFETY: each part of it is handed out to one caller at a time.
unsafe impl Sync for ReserveMemory {}

static MEMORY: ReserveMemory = ReserveMemory(UnsafeCell::new([0; RESERVE_BYTES]));

/// Bytes that were handed out since all were free, above how many allocations have not been given
/// back.
static TAKEN: AtomicU64 = AtomicU64::new(0);

const ONE: u64 = 1 << 32;

/// Whether the process was out of memory, and what we allocated then is still needed.
pub(crate) fn is_in_use() -> bool {
    TAKEN.load(Ordering::Acquire) >= ONE
}

fn take(layout: Layout) -> *mut u8 {
    let bytes = layout.size().next_multiple_of(ALIGN);
    if bytes > MAX_BYTES || layout.align() > ALIGN {
        return std::ptr::null_mut();
    }
    let next = |taken: u64| {
        let begin = taken % ONE;
        let fits = begin + bytes as u64 <= RESERVE_BYTES as u64;
        fits.then_some(taken + ONE + bytes as u64)
    };
    match TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) {
        // SAFETY: it is within the memory.
        Ok(before) => unsafe { MEMORY.0.get().cast::<u8>().add((before % ONE) as usize) },
        Err(_) => std::ptr::null_mut(),
    }
}

fn is_of_reserve(place: *mut u8) -> bool {
    let begin = MEMORY.0.get().addr();
    (begin..begin + RESERVE_BYTES).contains(&place.addr())
}

/// Gives an allocation back; returns false if it is none of the reserve.
fn give_back(place: *mut u8) -> bool {
    if !is_of_reserve(place) {
        return false;
    }
    let next = |taken: u64| if taken < 2 * ONE { 0 } else { taken - ONE };
    TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| Some(next(taken))).is_ok()
}

/// The system's allocator, and the reserve where it fails.
struct WithReserve;

// SAFETY: what it returns is valid for the layout: from the system, or a part of the reserve that nobody
// else has, of that size and alignment. The reserve is whole again when nothing of it is in use.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc(layout) };
        if place.is_null() { take(layout) } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            return place;
        }
        let place = take(layout);
        if !place.is_null() {
            // SAFETY: it is as long, and nobody else's.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !give_back(place) {
            // SAFETY: then it is the system's.
            unsafe { System.dealloc(place, layout) };
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !is_of_reserve(place) {
            // SAFETY: then it is the system's.
            let moved = unsafe { System.realloc(place, layout, new_size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller has seen to it that the size fits.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: it is not empty.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            // SAFETY: both are as long, and apart.
            unsafe { moved.copy_from_nonoverlapping(place, layout.size().min(new_size)) };
            // SAFETY: it is the caller's.
            unsafe { self.dealloc(place, layout) };
        }
        moved
    }
}

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_handed_out_in_parts_and_is_whole_again_at_the_end() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        assert!(take(Layout::from_size_align(MAX_BYTES + 1, 8).unwrap()).is_null());
        for _ in 0..2 {
            let mut parts = Vec::with_capacity(RESERVE_BYTES / 128 + 1);
            loop {
                let part = take(layout);
                if part.is_null() {
                    break;
                }
                assert!(parts.last().is_none_or(|last: &*mut u8| part.addr() == last.addr() + 128));
                parts.push(part);
            }
            assert_eq!(parts.len(), RESERVE_BYTES / 128);
            assert!(is_in_use());
            for part in parts {
                assert!(give_back(part));
            }
            assert!(!is_in_use());
        }
        assert!(!give_back((&raw mut *Box::new(1_u8)).cast()));
    }
}
