//! Where packets' bytes wait while the model decides when they leave.

/// Buffers of equal size that are used again and again.
pub(crate) struct Slab {
    slots: Vec<SlabSlot>,
    free: Vec<u32>,
    size: usize,
    most: usize,
}

struct SlabSlot {
    bytes: Box<[u8]>,
    length: usize,
}

impl Slab {
    /// Buffers of `size` bytes, `memory` bytes in all at most.
    pub(crate) fn new(size: usize, memory: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), size, most: memory / size.max(1) }
    }

    /// A buffer to fill, or `None` when all are in use. It is free until [`Self::keep`].
    pub(crate) fn spare(&mut self) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            if self.slots.len() >= self.most {
                return None;
            }
            self.free.push(self.slots.len() as u32);
            self.slots.push(SlabSlot { bytes: vec![0; self.size].into_boxed_slice(), length: 0 });
        }
        let slot = *self.free.last()?;
        Some(&mut self.slots[slot as usize].bytes)
    }

    /// Keeps `length` bytes of the buffer that [`Self::spare`] gave last, under the number returned.
    pub(crate) fn keep(&mut self, length: usize) -> Option<u64> {
        let slot = self.free.pop()?;
        self.slots[slot as usize].length = length.min(self.size);
        Some(u64::from(slot))
    }

    /// The bytes under a number.
    pub(crate) fn bytes(&self, number: u64) -> &[u8] {
        let slot = &self.slots[number as usize];
        &slot.bytes[..slot.length]
    }

    /// The bytes under a number, to change them.
    pub(crate) fn bytes_mut(&mut self, number: u64) -> &mut [u8] {
        let slot = &mut self.slots[number as usize];
        &mut slot.bytes[..slot.length]
    }

    /// Frees a number and its buffer.
    pub(crate) fn free(&mut self, number: u64) {
        self.free.push(number as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_come_to_an_end() {
        let mut slab = Slab::new(4, 11);
        slab.spare().unwrap()[..2].copy_from_slice(b"ab");
        slab.spare().unwrap()[2] = b'c';
        let first = slab.keep(3).unwrap();
        slab.spare().unwrap().copy_from_slice(b"wxyz");
        let second = slab.keep(4).unwrap();
        assert_eq!((slab.bytes(first), slab.bytes(second)), (&b"abc"[..], &b"wxyz"[..]));
        assert!(slab.spare().is_none(), "two buffers of four bytes fit");
        slab.free(first);
        assert!(slab.spare().is_some());
        assert_eq!(slab.keep(99), Some(first));
        assert_eq!(slab.bytes(first).len(), 4);
    }
}
