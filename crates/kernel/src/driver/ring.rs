//! The user's end of a BPF ring buffer (`Documentation/bpf/ringbuf.rst` of the kernel): a page
//! with our position, one with the kernel's, then the data, mapped twice in a row so that no
//! record is torn at its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::host::bpf::{Map, Mapping};

const HEADER: usize = 8;
/// Top bits of a record's length: still being written, given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// One consumer's view.
#[derive(Debug)]
pub(crate) struct RecordRing {
    map: Map,
    consumer: Mapping,
    producer: Mapping,
    page: usize,
    mask: usize,
}

impl RecordRing {
    /// `bytes` is the ring's size: a power of two.
    pub(crate) fn new(map: Map, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        if !bytes.is_power_of_two() || bytes < page || bytes > 1 << 30 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let consumer = Mapping::new(map.as_fd(), 0, page, true)?;
        let producer = Mapping::new(map.as_fd(), page, page + 2 * bytes, false)?;
        Ok(Self { map, consumer, producer, page, mask: bytes - 1 })
    }

    /// Forgets what is in it.
    pub(crate) fn clear(&mut self) {
        let produced = self.producer.u64(0).load(Ordering::Acquire);
        self.consumer.u64(0).store(produced, Ordering::Release);
    }

    /// Hands out up to `most` records, each copied into `N` bytes; longer ones are cut, of shorter
    /// ones the remainder is zero. Returns how many there were.
    pub(crate) fn drain<const N: usize>(
        &mut self,
        most: usize,
        mut each: impl FnMut(&[u8; N]),
    ) -> usize {
        let position = self.consumer.u64(0);
        let mut consumed = position.load(Ordering::Relaxed);
        let produced = self.producer.u64(0).load(Ordering::Acquire);
        let mut count = 0;
        while consumed < produced && count < most {
            let at = self.page + (consumed as usize & self.mask);
            let header = self.producer.u32(at).load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if length > self.mask {
                // Not what the kernel writes. Better none than for ever the same.
                consumed = produced;
                break;
            }
            if header & DISCARDED == 0 {
                let mut record = [0u8; N];
                self.producer.copy(at + HEADER, &mut record[..length.min(N)]);
                each(&record);
                count += 1;
            }
            consumed += (length + HEADER).next_multiple_of(8) as u64;
            // At once, so that the kernel has the room: a burst may be going on.
            position.store(consumed, Ordering::Release);
        }
        position.store(consumed, Ordering::Release);
        count
    }
}

impl AsFd for RecordRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
