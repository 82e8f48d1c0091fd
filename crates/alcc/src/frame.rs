//! Frames as bytes. `docs/alcc-wire.md` describes them for people.
//!
//! Each begins with 12 bytes: a word and a number. Where the highest bit of the word is 0, the word
//! is the length of the data that follows and the number is that of the packet. The original has
//! only one direction of data and distinguishes data from acks by it; here both directions carry both, so
//! that control frames need a mark: the highest bit of the word.
//!
//! Whatever the bytes, decoding neither panics nor keeps more than one control frame.

use cellpace_base::{ByteReader, Time};
use thiserror::Error;

/// Word and number.
pub const HEADER_BYTES: usize = 12;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 8;

/// Bytes of an ack.
pub const ACK_BYTES: usize = HEADER_BYTES + ACK_BODY;

/// The longest data of one frame, by the specification.
pub const MAX_DATA: u32 = 1 << 20;

/// The longest report, by the seam of the controllers.
pub const MAX_REPORT: usize = 1200;

const ACK_BODY: usize = 20;
const CONTROL: u32 = 1 << 31;
const KIND_SHIFT: u32 = 24;
const LENGTH_MASK: u32 = (1 << KIND_SHIFT) - 1;
const ACK: u32 = CONTROL | 1 << KIND_SHIFT;
const REPORT: u32 = CONTROL | 2 << KIND_SHIFT;

/// Why bytes are no frame, or not the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// More data than a frame may hold.
    #[error("a frame of {0} bytes")]
    TooLong(u32),
    /// A control frame that nobody knows, or with a length that it cannot have.
    #[error("an unknown frame ({0:#010x})")]
    Unknown(u32),
    /// Another number than the next.
    #[error("frame {found} where {expected} is due")]
    Number {
        /// The number that is due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// Data behind the end of the stream.
    #[error("data behind the end")]
    BehindEnd,
}

/// The head of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHead {
    /// Counts up by one with each packet, from 1 on.
    pub number: u64,
    /// Bytes of data; 0: the stream ends.
    pub length: u32,
    /// The controller's word for its other half, where it has one.
    pub stamp: Option<u64>,
}

/// An acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrame {
    /// This packet and all before it have arrived whole.
    pub number: u64,
    /// When this was written, on its writer's clock.
    pub written_at: Time,
    /// Microseconds that had passed since the newest packet arrived.
    pub held_us: u32,
    /// Offset in the stream up to which its reader takes bytes.
    pub window: u64,
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePiece<'a> {
    /// A data frame begins. Its data follows as [`FramePiece::Bytes`].
    Data(DataHead),
    /// Some of the data of the frame that began last, and how much of it is left.
    Bytes(&'a [u8], u32),
    /// An ack.
    Ack(AckFrame),
    /// A report of the receiver's half.
    Report(&'a [u8]),
}

/// Cuts a stream into frames, wherever it was cut on its way.
#[derive(Debug)]
pub struct FrameDecoder {
    stamped: bool,
    /// The frame that has not come whole, without its data.
    partial: Vec<u8>,
    /// What was in `partial` has been given out.
    taken: bool,
    /// Data of the current frame that has not come.
    left: u32,
    number: u64,
    report: u64,
    ended: bool,
}

impl FrameDecoder {
    /// A decoder of a stream whose data frames carry stamps, or do not.
    pub fn new(stamped: bool) -> Self {
        let (partial, taken, left) = (Vec::new(), false, 0);
        Self { stamped, partial, taken, left, number: 0, report: 0, ended: false }
    }

    /// Whether the next byte begins a frame.
    pub fn is_between_frames(&self) -> bool {
        self.left == 0 && (self.taken || self.partial.is_empty())
    }

    /// Takes the next piece from the front of `input`. `None`: more bytes are needed.
    ///
    /// # Errors
    /// When the bytes are no frame, or not the next one. Nothing sensible follows after that.
    pub fn next<'p, 'i: 'p>(
        &'p mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<FramePiece<'p>>, FrameError> {
        if self.left > 0 {
            return Ok(self.take_data(input));
        }
        if self.taken {
            self.partial.clear();
            self.taken = false;
        }
        loop {
            let needed = self.needed()?;
            let lacking = needed - self.partial.len();
            if lacking == 0 {
                break;
            }
            let count = lacking.min(input.len());
            if count == 0 {
                return Ok(None);
            }
            let (first, rest) = input.split_at(count);
            self.partial.extend(first);
            *input = rest;
        }
        self.taken = true;
        self.take_frame().map(Some)
    }

    fn take_data<'a>(&mut self, input: &mut &'a [u8]) -> Option<FramePiece<'a>> {
        let count = (self.left as usize).min(input.len());
        if count == 0 {
            return None;
        }
        let (data, rest) = input.split_at(count);
        *input = rest;
        self.left -= count as u32;
        Some(FramePiece::Bytes(data, self.left))
    }

    /// Bytes of the frame without its data, as far as is known by now.
    fn needed(&self) -> Result<usize, FrameError> {
        let Some(word) = self.partial.first_chunk() else { return Ok(4) };
        let word = u32::from_be_bytes(*word);
        let length = (word & LENGTH_MASK) as usize;
        match word & !LENGTH_MASK {
            ACK if length == ACK_BODY => Ok(HEADER_BYTES + length),
            REPORT if length <= MAX_REPORT => Ok(HEADER_BYTES + length),
            _ if word & CONTROL != 0 => Err(FrameError::Unknown(word)),
            _ if word > MAX_DATA => Err(FrameError::TooLong(word)),
            _ if self.ended => Err(FrameError::BehindEnd),
            _ => Ok(HEADER_BYTES + if self.stamped { STAMP_BYTES } else { 0 }),
        }
    }

    fn take_frame(&mut self) -> Result<FramePiece<'_>, FrameError> {
        let mut reader = ByteReader::new(&self.partial);
        // No number is missing: frames are taken when they are complete.
        let word = reader.u32().unwrap_or_default();
        let number = reader.u64().unwrap_or_default();
        match word & !LENGTH_MASK {
            ACK => Ok(FramePiece::Ack(AckFrame {
                number,
                written_at: Time::from_micros(reader.u64().unwrap_or_default()),
                held_us: reader.u32().unwrap_or_default(),
                window: reader.u64().unwrap_or_default(),
            })),
            REPORT => {
                follows(&mut self.report, number)?;
                Ok(FramePiece::Report(&self.partial[HEADER_BYTES..]))
            }
            _ => {
                follows(&mut self.number, number)?;
                self.left = word;
                self.ended = word == 0;
                let stamp = self.stamped.then(|| reader.u64().unwrap_or_default());
                Ok(FramePiece::Data(DataHead { number, length: word, stamp }))
            }
        }
    }
}

/// Whether `found` is one more than the last number, which it becomes.
fn follows(last: &mut u64, found: u64) -> Result<(), FrameError> {
    let expected = last.saturating_add(1);
    if found != expected {
        return Err(FrameError::Number { expected, found });
    }
    *last = found;
    Ok(())
}

/// Appends the head of a data frame.
pub fn write_data(out: &mut Vec<u8>, data: &DataHead) {
    out.extend(data.length.to_be_bytes());
    out.extend(data.number.to_be_bytes());
    if let Some(stamp) = data.stamp {
        out.extend(stamp.to_be_bytes());
    }
}

/// Appends an ack.
pub fn write_ack(out: &mut Vec<u8>, ack: &AckFrame) {
    out.extend((ACK | ACK_BODY as u32).to_be_bytes());
    out.extend(ack.number.to_be_bytes());
    out.extend((ack.written_at.as_nanos() / 1_000).to_be_bytes());
    out.extend(ack.held_us.to_be_bytes());
    out.extend(ack.window.to_be_bytes());
}

/// Appends a report, of which what is beyond [`MAX_REPORT`] is left out. Reports count from 1.
pub fn write_report(out: &mut Vec<u8>, number: u64, report: &[u8]) {
    let report = &report[..report.len().min(MAX_REPORT)];
    out.extend((REPORT | report.len() as u32).to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend(report);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece that owns what it shows, with data joined and the rest as it came.
    #[derive(Debug, Clone, PartialEq)]
    enum Whole {
        Data(DataHead, Vec<u8>),
        Ack(AckFrame),
        Report(Vec<u8>),
    }

    fn decode(decoder: &mut FrameDecoder, chunks: &[&[u8]]) -> Result<Vec<Whole>, FrameError> {
        let mut wholes = Vec::new();
        for chunk in chunks {
            let mut input = *chunk;
            while let Some(piece) = decoder.next(&mut input)? {
                match piece {
                    FramePiece::Data(data) => wholes.push(Whole::Data(data, Vec::new())),
                    FramePiece::Bytes(bytes, _) => {
                        let Some(Whole::Data(_, data)) = wholes.last_mut() else { panic!() };
                        data.extend(bytes);
                    }
                    FramePiece::Ack(ack) => wholes.push(Whole::Ack(ack)),
                    FramePiece::Report(report) => wholes.push(Whole::Report(report.to_vec())),
                }
            }
            assert!(input.is_empty(), "the decoder takes everything");
        }
        Ok(wholes)
    }

    const ACK: AckFrame = AckFrame {
        number: 7,
        written_at: Time::from_micros(1_234_567),
        held_us: 89,
        window: 1 << 33,
    };

    fn stream(lengths: impl Iterator<Item = u32>, stamped: bool) -> (Vec<u8>, Vec<Whole>) {
        let (mut bytes, mut wholes) = (Vec::new(), Vec::new());
        for (index, length) in lengths.enumerate() {
            let number = index as u64 + 1;
            let data = DataHead { number, length, stamp: stamped.then_some(number << 40 | 5) };
            let payload: Vec<u8> = (0..length).map(|at| (at + length) as u8).collect();
            write_data(&mut bytes, &data);
            bytes.extend(&payload);
            wholes.push(Whole::Data(data, payload));
            if index % 3 == 1 {
                write_ack(&mut bytes, &ACK);
                wholes.push(Whole::Ack(ACK));
            }
            if index % 5 == 2 {
                let count = wholes.iter().filter(|one| matches!(one, Whole::Report(_))).count();
                write_report(&mut bytes, count as u64 + 1, b"a report");
                wholes.push(Whole::Report(b"a report".to_vec()));
            }
        }
        (bytes, wholes)
    }

    #[test]
    fn alcc_t10_frames_split_at_every_byte_boundary_parse_identically() {
        for stamped in [false, true] {
            let (bytes, wholes) = stream([1, 2, 11, 12, 13, 100, 1436, 0].into_iter(), stamped);
            for cut in 0..=bytes.len() {
                let (first, second) = bytes.split_at(cut);
                let parsed = decode(&mut FrameDecoder::new(stamped), &[first, second]);
                assert_eq!(parsed.as_ref(), Ok(&wholes), "cut at {cut}");
            }
        }
    }

    #[test]
    fn alcc_t10_frames_of_all_lengths_parse_byte_by_byte() {
        let (bytes, wholes) = stream((1..=1436).chain([0]), true);
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&mut FrameDecoder::new(true), &singles).as_ref(), Ok(&wholes));
        for size in [7, 1448, 65_536] {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(decode(&mut FrameDecoder::new(true), &chunks).as_ref(), Ok(&wholes));
        }
    }

    #[test]
    fn alcc_t10_length_0_is_the_end_and_nothing_but_control_follows() {
        let (bytes, wholes) = stream([5, 0].into_iter(), false);
        let Whole::Data(end, _) = &wholes[1] else { panic!() };
        assert_eq!((end.length, end.number), (0, 2));
        let mut decoder = FrameDecoder::new(false);
        decode(&mut decoder, &[&bytes]).unwrap();
        let mut ack = Vec::new();
        write_ack(&mut ack, &ACK);
        assert_eq!(decode(&mut decoder, &[&ack]), Ok(vec![Whole::Ack(ACK)]));
        let mut more = Vec::new();
        write_data(&mut more, &DataHead { number: 3, length: 1, stamp: None });
        assert_eq!(decode(&mut decoder, &[&more]), Err(FrameError::BehindEnd));
    }

    #[test]
    fn alcc_t10_a_wrong_number_is_an_error() {
        for (first, second) in [(0, 1), (2, 3), (1, 1), (1, 3), (1, u64::MAX), (1, 0)] {
            let mut bytes = Vec::new();
            for number in [first, second] {
                write_data(&mut bytes, &DataHead { number, length: 1, stamp: None });
                bytes.push(7);
            }
            let parsed = decode(&mut FrameDecoder::new(false), &[&bytes]);
            assert!(matches!(parsed, Err(FrameError::Number { .. })), "{first}, {second}");
        }
        let mut bytes = Vec::new();
        write_report(&mut bytes, 2, b"");
        let parsed = decode(&mut FrameDecoder::new(false), &[&bytes]);
        assert_eq!(parsed, Err(FrameError::Number { expected: 1, found: 2 }));
    }

    #[test]
    fn alcc_t10_more_than_a_mebibyte_is_an_error_with_the_fourth_byte() {
        let longest = MAX_DATA.to_be_bytes();
        assert_eq!(decode(&mut FrameDecoder::new(false), &[&longest]), Ok(Vec::new()));
        let longer = (MAX_DATA + 1).to_be_bytes();
        let parsed = decode(&mut FrameDecoder::new(false), &[&longer]);
        assert_eq!(parsed, Err(FrameError::TooLong(MAX_DATA + 1)));
    }

    #[test]
    fn unknown_control_frames_are_errors_with_the_fourth_byte() {
        for word in [0x8000_0000_u32, 0x8100_0013, 0x8100_0015, 0x8200_04b1, 0xffff_ffff] {
            let parsed = decode(&mut FrameDecoder::new(false), &[&word.to_be_bytes()]);
            assert_eq!(parsed, Err(FrameError::Unknown(word)));
        }
    }

    #[test]
    fn a_decoder_keeps_one_control_frame_at_most() {
        let mut bytes = Vec::new();
        for number in 1..100 {
            write_report(&mut bytes, number, &[7; 2000]);
            let data = DataHead { number, length: 100_000, stamp: None };
            write_data(&mut bytes, &data);
            bytes.extend(std::iter::repeat_n(1, 100_000));
        }
        let mut decoder = FrameDecoder::new(false);
        decode(&mut decoder, &[&bytes]).unwrap();
        assert!(decoder.partial.capacity() <= 4096);
        assert!(decoder.is_between_frames());
    }
}
