//! Both ends of a flow's streams inside QUIC: the one that opens them, and the window of the other.

use std::collections::VecDeque;

use cellpace_base::quota::{LISTENER_MEMORY, MemoryTally};
use noq::{Connection, ConnectionError, SendStream, VarInt, WriteError};

use super::quic_stream::{SEGMENT, StreamCloseCode};

/// Bytes that a receiver lets a flow have in flight or waiting, at first and at most.
const FIRST_WINDOW: u64 = 1 << 20;
const MAX_WINDOW: u64 = 1 << 25;
/// Streams of a flow at a time: those of the largest window, and some that have arrived.
pub(super) const MAX_STREAMS: u32 = (2 * MAX_WINDOW / SEGMENT) as u32;
/// Memory of a listener beyond the first windows of its connections, which have as much.
pub(super) const WINDOW_MEMORY: u64 = LISTENER_MEMORY / 2;

/// The first window of each of so many connections.
pub(super) fn first_window(connections: usize) -> u64 {
    (WINDOW_MEMORY / connections.max(1) as u64).min(FIRST_WINDOW)
}

/// How much a flow may have in flight or waiting at its receiver. It grows as the flow goes on and
/// memory allows, so that a peer that has sent little holds little.
pub(super) struct ReceiveWindow {
    /// Bytes.
    size: u64,
    /// Bytes that were read since it has grown.
    read: u64,
    /// What it has beyond the first window.
    memory: MemoryTally,
}

impl ReceiveWindow {
    pub(super) const fn new(first: u64, memory: MemoryTally) -> Self {
        Self { size: first, read: 0, memory }
    }

    /// So many bytes were read. Returns the new size, if it grows.
    fn grow(&mut self, bytes: u64) -> Option<u64> {
        self.read += bytes;
        // Doubled only after half was read: a peer whose data is not read gets no more memory.
        if self.read < self.size / 2 || self.size >= MAX_WINDOW || !self.memory.add(self.size) {
            return None;
        }
        (self.size, self.read) = (2 * self.size, 0);
        Some(self.size)
    }

    /// So many bytes of `connection` were read.
    pub(super) fn on_read(&mut self, connection: &Connection, bytes: usize) {
        if let Some(size) = self.grow(bytes as u64).and_then(|size| VarInt::from_u64(size).ok()) {
            connection.set_receive_window(size);
        }
    }
}

/// Why a flow cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error(transparent)]
    Open(ConnectionError),
    #[error(transparent)]
    Write(WriteError),
}

/// Writes a flow into streams of [`SEGMENT`] bytes. What is lost of earlier streams goes first.
pub(super) struct SegmentWriter {
    connection: Connection,
    stream: SendStream,
    /// Bytes that fit into the present stream.
    room: usize,
    opened: i32,
    /// Earlier streams that may not have arrived yet.
    earlier: VecDeque<SendStream>,
}

impl SegmentWriter {
    pub(super) async fn open(connection: &Connection) -> Result<Self, ConnectionError> {
        Ok(Self {
            connection: connection.clone(),
            stream: connection.open_uni().await?,
            room: SEGMENT as usize,
            opened: 1,
            earlier: VecDeque::new(),
        })
    }

    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), SegmentError> {
        while !bytes.is_empty() {
            if self.room == 0 {
                self.next_stream().await?;
            }
            let (now, later) = bytes.split_at(self.room.min(bytes.len()));
            self.stream.write_all(now).await.map_err(SegmentError::Write)?;
            self.room -= now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Ends the flow: the last stream is shorter than the others.
    pub(super) async fn finish(&mut self) -> Result<(), SegmentError> {
        // A full stream says that another follows: an empty one then ends the flow.
        if self.room == 0 {
            self.next_stream().await?;
        }
        let _ = self.stream.finish();
        Ok(())
    }

    /// Drops what has not arrived: the flow ends with what has.
    pub(super) fn cut(&mut self) {
        for stream in self.earlier.iter_mut().chain([&mut self.stream]) {
            // It has arrived.
            let _ = stream.reset(StreamCloseCode::Cut.into());
        }
    }

    async fn next_stream(&mut self) -> Result<(), SegmentError> {
        // Waits until the peer allows another one: then those before the last `MAX_STREAMS` have arrived.
        let next = self.connection.open_uni().await.map_err(SegmentError::Open)?;
        // Earlier streams first: the receiver reads in order, so that their losses hold everything
        // up.
        let _ = next.set_priority(-self.opened);
        let mut full = std::mem::replace(&mut self.stream, next);
        let _ = full.finish();
        self.earlier.push_back(full);
        if self.earlier.len() > MAX_STREAMS as usize {
            self.earlier.pop_front();
        }
        self.opened = self.opened.saturating_add(1);
        self.room = SEGMENT as usize;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::quota::MemoryBudget;

    #[test]
    fn windows_grow_with_what_was_read_and_within_the_memory() {
        let budget = MemoryBudget::new(5 * FIRST_WINDOW);
        let mut window = ReceiveWindow::new(FIRST_WINDOW, budget.tally());
        assert_eq!(window.grow(FIRST_WINDOW / 2 - 1), None);
        assert_eq!(window.grow(1), Some(2 * FIRST_WINDOW));
        assert_eq!(window.grow(FIRST_WINDOW), Some(4 * FIRST_WINDOW));
        assert_eq!(budget.used(), 3 * FIRST_WINDOW);
        assert_eq!(window.grow(100 * FIRST_WINDOW), None, "the memory is used up");
        drop(window);
        assert_eq!(budget.used(), 0);
        let budget = MemoryBudget::new(u64::MAX);
        let mut window = ReceiveWindow::new(FIRST_WINDOW, budget.tally());
        let largest = std::iter::from_fn(|| window.grow(MAX_WINDOW)).last();
        assert_eq!(largest, Some(MAX_WINDOW));
    }

    #[test]
    fn all_windows_together_stay_within_the_memory_of_a_listener() {
        for connections in [1, 64, 256, 4096, 65_535] {
            let first = first_window(connections);
            assert!(first > 0 && first * connections as u64 + WINDOW_MEMORY <= LISTENER_MEMORY);
        }
    }
}
