//! The packets of one flow in their order, over time: as many as a page holds.

use serde::{Deserialize, Serialize};

/// What a page draws of a flow's packets. Times are in units of 10 microseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct PacketSequence {
    /// The flow's name, the same as in the other charts.
    pub(crate) name: String,
    /// Its run and its number in it; none for flows that are taken together.
    #[serde(default)]
    pub(crate) run: u32,
    pub(crate) flow: Option<u32>,
    #[serde(default)]
    pub(crate) cc: String,
    /// The place of its result among those that stand side by side.
    #[serde(default)]
    pub(crate) result: usize,
    /// Of so many packets that arrived, one is drawn.
    pub(crate) every: u64,
    /// When each was sent: the first, and the time from each to the next.
    pub(crate) sent: Vec<i64>,
    /// How long each took until it had left the link.
    pub(crate) took: Vec<i64>,
    /// Bytes that had arrived with it since the one before.
    pub(crate) bytes: Vec<u64>,
    /// How long after that its ack came, where one did. Empty without any ack, like what follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) acked: Vec<Option<i64>>,
    /// The window in bytes after that ack, as the difference from the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) window: Vec<Option<i64>>,
    /// By how many bytes what was in flight then and what was let leave exceed the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) permitted: Vec<Option<i64>>,
    /// When lost packets were sent.
    pub(crate) lost: Vec<i64>,
    /// How many were lost, also those that are not in `lost`.
    pub(crate) losses: u64,
}

/// Packets of a page that has several logs, or a comparison, too.
const MAX_SHARED_POINTS: usize = 12_000;

/// Thins the packets of all sequences of a page to as many as it has room for beside other results.
pub(crate) fn thin_all<'a>(sequences: impl Iterator<Item = &'a mut PacketSequence>) {
    let mut all: Vec<&mut PacketSequence> = sequences.collect();
    let points: usize = all.iter().map(|each| each.sent.len()).sum();
    let by = points.div_ceil(MAX_SHARED_POINTS);
    if by > 1 {
        all.iter_mut().for_each(|each| each.thin(by));
    }
}

impl PacketSequence {
    /// Keeps every packet whose number is a multiple of `by`.
    fn thin(&mut self, by: usize) {
        self.every *= by as u64;
        self.sent = sums_of(&self.sent, by);
        self.bytes = sums_of(&self.bytes, by);
        self.took = self.took.iter().copied().step_by(by).collect();
        self.acked = self.acked.iter().copied().step_by(by).collect();
        self.permitted = self.permitted.iter().copied().step_by(by).collect();
        let (mut window, mut kept, mut kept_before) = (0, Vec::new(), 0);
        for (place, change) in self.window.iter().enumerate() {
            window += change.unwrap_or(0);
            if place % by == 0 {
                kept.push(change.map(|_| window - kept_before));
                kept_before = change.map_or(kept_before, |_| window);
            }
        }
        self.window = kept;
    }
}

/// Differences between every `by`th of the values that `differences` lead to.
fn sums_of<T: Copy + std::iter::Sum<T>>(differences: &[T], by: usize) -> Vec<T> {
    let Some((first, rest)) = differences.split_first() else { return Vec::new() };
    let whole = rest.chunks_exact(by).map(|chunk| chunk.iter().copied().sum());
    std::iter::once(*first).chain(whole).collect()
}

/// How a flow of a log is called; `None` is all that are taken together.
pub(crate) fn flow_name(number: Option<u32>, cc: &str) -> String {
    match number {
        Some(number) => format!("flow {number}: {cc}"),
        None => "all others".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_packets_keep_their_times_bytes_and_windows() {
        let mut sequence = PacketSequence {
            every: 2,
            sent: vec![5, 1, 1, 1, 1, 1],
            took: vec![20, 21, 22, 23, 24, 25],
            bytes: vec![1500, 10, 20, 30, 40, 50],
            acked: vec![None, Some(1), Some(2), Some(3), Some(4), Some(5)],
            window: vec![None, Some(900), Some(100), Some(-50), Some(7), None],
            permitted: vec![None, Some(0), Some(1), Some(2), Some(3), Some(4)],
            ..PacketSequence::default()
        };
        sequence.thin(2);
        assert_eq!((sequence.every, &sequence.sent[..]), (4, &[5, 2, 2][..]));
        assert_eq!(
            (&sequence.took[..], &sequence.bytes[..]),
            (&[20, 22, 24][..], &[1500, 30, 70][..])
        );
        assert_eq!(sequence.acked, [None, Some(2), Some(4)]);
        assert_eq!(sequence.window, [None, Some(1000), Some(-43)]);
        assert_eq!(sequence.permitted, [None, Some(1), Some(3)]);
    }
}
