//! The bytes that wait for the controller.

use std::cell::RefCell;

/// A flow has at least so many bytes at hand before it asks the application's socket for more.
pub(crate) const AT_HAND: usize = 64 << 10;

/// Buffers that a thread keeps for the next flow that needs one.
const MAX_SPARE: usize = 16;

/// Larger ones are not kept: those of flows on long fast paths.
const MAX_SPARE_BYTES: usize = 256 << 10;

thread_local! {
    /// Buffers of queues that are empty now, whose pages the kernel need not make anew. The one that was
    /// used last is the next.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A bounded queue of bytes. Holds no memory while it is empty: ten thousand idle flows must not keep
/// ten thousand buffers.
#[derive(Debug)]
pub(crate) struct ByteQueue {
    /// Bytes `head` to `tail` of it wait; the others are of no meaning.
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
    capacity: usize,
    starved: bool,
}

impl ByteQueue {
    /// An empty queue that holds at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { buffer: Vec::new(), head: 0, tail: 0, capacity, starved: false }
    }

    /// Bytes in it.
    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
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
        &self.buffer[self.head..self.tail]
    }

    /// Has `read` put up to `most` bytes behind the others, as far as there is room, and returns
    /// what it returned.
    pub(crate) fn fill<E>(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let most = most.min(self.room());
        if !self.make_space(most) {
            self.starved = true;
            return Ok(0);
        }
        let result = read(&mut self.buffer[self.tail..self.tail + most]);
        self.tail += result.as_ref().map_or(0, |count| *count);
        self.give_back_if_empty();
        result
    }

    /// Makes `most` bytes of the buffer free behind those that wait. Returns false if there is no memory
    /// for them.
    fn make_space(&mut self, most: usize) -> bool {
        if self.buffer.is_empty() {
            self.buffer = take_spare();
        }
        if self.tail + most <= self.buffer.len() {
            return true;
        }
        // Moved to the front before it grows: usually the room is there already.
        self.buffer.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, self.len());
        let missing = (self.tail + most).saturating_sub(self.buffer.len());
        if self.buffer.try_reserve_exact(missing).is_err() {
            return false;
        }
        self.buffer.resize(self.buffer.len() + missing, 0);
        true
    }

    /// The oldest `count` bytes have left.
    ///
    /// # Panics
    /// When there are not so many.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "no more can leave than is there");
        self.head += count;
        self.give_back_if_empty();
    }

    fn give_back_if_empty(&mut self) {
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
            keep_spare(std::mem::take(&mut self.buffer));
        }
    }
}

/// An empty one if there is none.
fn take_spare() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

fn keep_spare(buffer: Vec<u8>) {
    if (1..=MAX_SPARE_BYTES).contains(&buffer.len()) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MAX_SPARE {
                spare.push(buffer);
            }
        });
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
    fn a_queue_has_a_buffer_only_while_bytes_wait_and_the_next_one_gets_it() {
        let mut queue = ByteQueue::new(1000);
        queue.write(&[7; 900]);
        queue.consume(899);
        let buffer = queue.buffer.as_ptr();
        assert_eq!(queue.bytes(), [7]);
        queue.consume(1);
        assert_eq!(queue.buffer.capacity(), 0);
        let mut other = ByteQueue::new(1000);
        other.write(&[8; 10]);
        assert_eq!((other.buffer.as_ptr(), other.bytes()), (buffer, &[8; 10][..]));
        assert_eq!(queue.fill(10, |_| Err(())), Err(()));
        assert_eq!(queue.buffer.capacity(), 0, "nothing came");
    }

    #[test]
    fn a_thread_keeps_few_buffers_and_no_large_ones() {
        let mut queues: Vec<_> = (0..2 * MAX_SPARE).map(|_| ByteQueue::new(1 << 20)).collect();
        let large = vec![7; MAX_SPARE_BYTES + 1];
        for queue in &mut queues {
            queue.write(&[7; 10]);
        }
        queues[0].write(&large);
        for queue in &mut queues {
            queue.consume(queue.len());
        }
        SPARE.with_borrow(|spare| {
            assert_eq!(spare.len(), MAX_SPARE);
            assert!(spare.iter().all(|buffer| buffer.len() <= MAX_SPARE_BYTES));
        });
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
                // Buffers of other cases may be larger.
                prop_assert!(queue.buffer.len() <= 5000);
            }
        }
    }
}
