//! The bytes that wait for the controller.

/// A flow has at least so many bytes at hand before it asks the application's socket for more.
pub(crate) const AT_HAND: usize = 64 << 10;

/// A bounded queue of bytes. Holds no memory while it is empty for long: ten thousand idle flows
/// must not keep ten thousand buffers.
#[derive(Debug)]
pub(crate) struct ByteQueue {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that have left.
    head: usize,
    capacity: usize,
    starved: bool,
}

impl ByteQueue {
    /// An empty queue that holds at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { buffer: Vec::new(), head: 0, capacity, starved: false }
    }

    /// Bytes in it.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.head
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it still takes.
    pub(crate) fn room(&self) -> usize {
        if self.starved { 0 } else { self.capacity - self.len() }
    }

    /// Whether memory for what it was to take could not be allocated. It takes nothing more then.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Its bytes, the oldest first.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.head..]
    }

    /// Has `read` put up to `most` bytes behind the others, as far as there is room, and returns
    /// what it returned.
    pub(crate) fn fill<E>(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let most = most.min(self.room());
        if self.head > 0 && self.buffer.len() + most > self.buffer.capacity() {
            self.buffer.drain(..self.head);
            self.head = 0;
        }
        if self.buffer.try_reserve(most).is_err() {
            self.starved = true;
            return Ok(0);
        }
        let before = self.buffer.len();
        self.buffer.resize(before + most, 0);
        let result = read(&mut self.buffer[before..]);
        let taken = result.as_ref().map_or(0, |count| *count);
        self.buffer.truncate(before + taken);
        result
    }

    /// The oldest `count` bytes have left.
    ///
    /// # Panics
    /// When there are not so many.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "no more can leave than is there");
        self.head += count;
        if self.head == self.buffer.len() {
            self.buffer.clear();
            self.head = 0;
        }
    }

    /// Gives the memory back if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            *self = Self::new(self.capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl ByteQueue {
        fn write(&mut self, bytes: &[u8]) -> usize {
            let copy = |spare: &mut [u8]| {
                spare.copy_from_slice(&bytes[..spare.len()]);
                Ok::<usize, ()>(spare.len())
            };
            self.fill(bytes.len(), copy).unwrap()
        }
    }

    #[test]
    fn alcc_t5_a_full_queue_takes_exactly_what_was_read() {
        let mut queue = ByteQueue::new(1000);
        assert_eq!(queue.write(&[7; 1001]), 1000, "C + 1 bytes: C are taken");
        assert_eq!(queue.write(&[7]), 0);
        queue.consume(123);
        assert_eq!(queue.write(&[8; 500]), 123, "k bytes left, k are taken");
    }

    #[test]
    fn an_empty_queue_can_give_its_memory_back() {
        let mut queue = ByteQueue::new(1000);
        queue.write(&[7; 900]);
        queue.rest();
        assert_eq!(queue.len(), 900);
        queue.consume(queue.len());
        queue.rest();
        assert_eq!(queue.buffer.capacity(), 0);
    }

    proptest! {
        #[test]
        fn alcc_t5_random_interleavings_preserve_the_stream(
            capacity in 1usize..5000,
            sizes in prop::collection::vec((1usize..4000, 1usize..4000), 1..400),
        ) {
            let mut queue = ByteQueue::new(capacity);
            let (mut written, mut read) = (0u64, 0u64);
            let byte = |position: u64| (position.wrapping_mul(2_654_435_761) >> 13) as u8;
            for (put, get) in sizes {
                let bytes: Vec<u8> = (written..written + put as u64).map(byte).collect();
                let room = queue.room();
                let taken = queue.write(&bytes);
                prop_assert_eq!(taken, put.min(room));
                written += taken as u64;
                let get = get.min(queue.len());
                for got in &queue.bytes()[..get] {
                    prop_assert_eq!(*got, byte(read));
                    read += 1;
                }
                queue.consume(get);
                prop_assert_eq!(queue.len() as u64, written - read);
                prop_assert!(queue.buffer.capacity() <= 4 * capacity + 64);
            }
        }
    }
}
