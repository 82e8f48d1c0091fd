//! What a drive was like: samples, events, and what they add up to.

use cellpace_base::{Span, Time};

use super::rate::Modulation;

/// Time between two samples.
pub const STEP: Span = Span::from_millis(10);

/// The radio in one step of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioSample {
    /// Position along the road in metres.
    pub position_m: f32,
    /// The serving cell, counted along the road.
    pub cell: i32,
    /// Received power of its reference signals per subcarrier, in dBm, without fading.
    pub rsrp_dbm: f32,
    /// Mean SINR in dB, fading included.
    pub sinr_db: f32,
    /// Bytes that were delivered.
    pub bytes: u32,
    /// The CQI of the last new block; 0: none was sent.
    pub cqi: u8,
    /// Other users in the cell.
    pub users: u8,
}

impl RadioSample {
    /// The modulation of the last new block.
    pub const fn modulation(&self) -> Modulation {
        Modulation::of(self.cqi)
    }

    /// The share of the cell that the phone has.
    pub fn share(&self) -> f64 {
        1.0 / (1.0 + f64::from(self.users))
    }
}

/// A change of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RadioEvent {
    /// When the interruption begins.
    pub start: Time,
    /// When it is over.
    pub end: Time,
    /// The cell that is left.
    pub from: i32,
    /// The cell that is entered; the same where a link failed and came back.
    pub to: i32,
    /// Whether the link failed, in place of being handed over.
    pub is_failure: bool,
}

impl RadioEvent {
    /// The word for it.
    pub const fn name(&self) -> &'static str {
        if self.is_failure { "failure" } else { "handover" }
    }
}

/// What the radio was like over some time: of a download, for example.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveSummary {
    /// Mean SINR in dB (the mean of decibels).
    pub mean_sinr_db: f64,
    /// Different cells that served.
    pub cells: u32,
    /// Handovers that began.
    pub handovers: u32,
    /// Radio link failures that began.
    pub failures: u32,
    /// Shares of the time with QPSK, 16QAM, 64QAM; the rest without a block.
    pub modulation: [f64; 3],
    /// Mean rate that was offered, in Mbit/s.
    pub offered_mbps: f64,
}

impl DriveSummary {
    /// Adds up samples and events; `None` without samples.
    pub(crate) fn of<'a>(
        samples: impl Iterator<Item = &'a RadioSample>,
        events: impl Iterator<Item = &'a RadioEvent>,
    ) -> Option<Self> {
        let (mut count, mut sinr, mut bytes) = (0.0, 0.0, 0.0);
        let mut modulation = [0.0; 3];
        let mut cells: Vec<i32> = Vec::new();
        for sample in samples {
            count += 1.0;
            sinr += f64::from(sample.sinr_db);
            bytes += f64::from(sample.bytes);
            if let Some(index) = (sample.modulation() as usize).checked_sub(1) {
                modulation[index] += 1.0;
            }
            // Samples come in runs of one cell, so that the list stays short before it is sorted.
            if cells.last() != Some(&sample.cell) {
                cells.push(sample.cell);
            }
        }
        if count == 0.0 {
            return None;
        }
        cells.sort_unstable();
        // Cells that came back count once: `cells` are different ones.
        cells.dedup();
        let (mut handovers, mut failures) = (0, 0);
        for event in events {
            handovers += u32::from(!event.is_failure);
            failures += u32::from(event.is_failure);
        }
        Some(Self {
            mean_sinr_db: sinr / count,
            cells: cells.len() as u32,
            handovers,
            failures,
            modulation: modulation.map(|steps| steps / count),
            offered_mbps: bytes * 8.0 / 1e6 / (count * STEP.as_secs_f64()),
        })
    }
}
