//! What arrived of the flow that carried most of a capture, as a trace.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use cellpace_path::OPPORTUNITY_BYTES;
use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace, TraceError};

use super::period::ending_at;
use crate::capture::{CaptureEnd, CapturedFlow, CapturedPacket, read_capture};

/// Flows that are told apart.
const MAX_FLOWS: usize = 100_000;
/// By how many ns queues of a device may exchange packets; more means that the clock was set.
const MAX_REORDERING: u64 = 100_000_000;

/// Which flow of a capture became a trace, as a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArrivalsReading {
    flow: CapturedFlow,
    packets: u64,
    others: usize,
    end: CaptureEnd,
}

impl fmt::Display for ArrivalsReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets of {}, the busiest flow", self.packets, self.flow)?;
        match self.others {
            0 => {}
            1 => f.write_str("; 1 other is left out")?,
            others => write!(f, "; {others} others are left out")?,
        }
        if self.end.is_cut {
            f.write_str("; the last packet is cut off")?;
        }
        f.write_str("; a trace of a link only if it was always busy")
    }
}

/// Reads a capture: each 1500 bytes of the flow with the most bytes are an opportunity when they arrived, counted
/// from its first packet.
///
/// Keeps two numbers for each flow and millisecond in which something came; an endless input ends with an error.
///
/// # Errors
/// When it is no capture, or nothing is in it; they name the packet.
pub(super) fn read(
    name: &str,
    reader: impl BufRead,
) -> Result<(Trace, ArrivalsReading), TraceError> {
    let mut flows = Flows::default();
    let trace =
        read_capture(reader, |packet| flows.take(&packet)).and_then(|end| flows.finish(end));
    trace.map_err(|problem| TraceError::Unreadable { name: name.to_owned(), problem })
}

#[derive(Default)]
struct Flows {
    flows: HashMap<CapturedFlow, Arrivals>,
    kept: usize,
}

struct Arrivals {
    /// The first one's time, in ns.
    first: u64,
    /// The latest one's, in ns.
    latest: u64,
    packets: u64,
    bytes: u64,
    /// Milliseconds since the first, rounded up, and the bytes that came in each.
    millis: Vec<(u32, u64)>,
}

impl Flows {
    fn take(&mut self, packet: &CapturedPacket) -> Result<(), String> {
        // A scan of ports is a flow per packet, each with lists of its own.
        if self.flows.len() == MAX_FLOWS && !self.flows.contains_key(&packet.flow) {
            return Err(format!("more than {MAX_FLOWS} flows"));
        }
        let arrivals = self.flows.entry(packet.flow).or_insert_with(|| Arrivals {
            first: packet.at,
            latest: packet.at,
            packets: 0,
            bytes: 0,
            millis: Vec::new(),
        });
        let back = arrivals.latest.saturating_sub(packet.at);
        if back > MAX_REORDERING {
            return Err(format!(
                "is {} ms before the packet before it: put packets in order of time (reordercap), or leave out \
                 what came before the clock was set",
                back / 1_000_000
            ));
        }
        arrivals.latest = arrivals.latest.max(packet.at);
        // Rounded up, as in all traces: an opportunity never comes before its packet did.
        let millis = packet.at.saturating_sub(arrivals.first).div_ceil(1_000_000);
        let millis = u32::try_from(millis).map_err(|_| "is more than 49 days after the first")?;
        let bytes = u64::from(packet.bytes);
        (arrivals.packets, arrivals.bytes) = (arrivals.packets + 1, arrivals.bytes + bytes);
        match arrivals.millis.last_mut() {
            // Queues of a device may exchange packets.
            Some((last, sum)) if millis <= *last => *sum += bytes,
            _ if self.kept == MAX_OPPORTUNITIES => {
                return Err(format!("more than {MAX_OPPORTUNITIES} milliseconds with packets"));
            }
            _ => {
                arrivals.millis.push((millis, bytes));
                self.kept += 1;
            }
        }
        Ok(())
    }

    fn finish(self, end: CaptureEnd) -> Result<(Trace, ArrivalsReading), String> {
        let others = self.flows.len().saturating_sub(1);
        // Of two with as many bytes always the same.
        let order = |flow: &CapturedFlow| (flow.from, flow.to);
        let busiest = self.flows.into_iter().max_by(|(a, of_a), (b, of_b)| {
            of_a.bytes.cmp(&of_b.bytes).then_with(|| order(b).cmp(&order(a)))
        });
        let (flow, arrivals) = busiest.ok_or("there is no IP packet in it")?;
        let opportunity = u64::from(OPPORTUNITY_BYTES);
        if arrivals.bytes / opportunity > MAX_OPPORTUNITIES as u64 {
            return Err(format!("{flow} makes more than {MAX_OPPORTUNITIES} opportunities"));
        }
        let mut waiting = 0;
        let mut millis = Vec::new();
        for (at, bytes) in &arrivals.millis {
            waiting += bytes;
            // Bytes are carried on: small packets share an opportunity, and the mean rate is that
            // of the capture.
            let whole = waiting / opportunity;
            millis.extend(std::iter::repeat_n(*at, whole as usize));
            waiting %= opportunity;
        }
        if millis.is_empty() {
            return Err(format!("{flow}, the busiest flow, has fewer than 1500 bytes"));
        }
        let last = arrivals.millis.last().map_or(0, |(at, _)| *at);
        let trace = ending_at(millis, last)?;
        Ok((trace, ArrivalsReading { flow, packets: arrivals.packets, others, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of pcapng or records of pcap, as their descriptions say.
    mod written {
        pub(super) fn udp(length: u16, port: u16) -> Vec<u8> {
            let mut packet = vec![0x45, 0];
            packet.extend(length.to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            packet.extend(port.to_be_bytes());
            packet.extend([0x01, 0xbb]);
            packet.extend((length - 20).to_be_bytes());
            packet.extend([0, 0]);
            packet
        }

        /// The captured part of each packet is its headers.
        pub(super) fn pcap(packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
            let mut file: Vec<u8> = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
            file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            file.extend(65_535_u32.to_le_bytes());
            file.extend(101_u32.to_le_bytes());
            for (second, micros, packet) in packets {
                let length = u32::from(u16::from_be_bytes([packet[2], packet[3]]));
                for word in [*second, *micros, packet.len() as u32, length] {
                    file.extend(word.to_le_bytes());
                }
                file.extend(packet);
            }
            file
        }

        fn block(kind: u32, body: &[u8]) -> Vec<u8> {
            let length = (body.len().next_multiple_of(4) + 12) as u32;
            let mut block = [kind.to_be_bytes(), length.to_be_bytes()].concat();
            block.extend(body);
            block.resize(length as usize - 4, 0);
            block.extend(length.to_be_bytes());
            block
        }

        /// Of the other order of bytes, Ethernet, times in nanoseconds.
        pub(super) fn pcapng(packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
            let header =
                [0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
            let mut file = block(0x0a0d_0d0a, &header);
            file.extend(block(1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]));
            for (second, micros, packet) in packets {
                let length = u32::from(u16::from_be_bytes([packet[2], packet[3]])) + 14;
                let nanos = u64::from(*second) * 1_000_000_000 + u64::from(*micros) * 1000;
                let frame =
                    [vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], packet.clone()].concat();
                let mut body = vec![0; 4];
                body.extend(nanos.to_be_bytes());
                body.extend((frame.len() as u32).to_be_bytes());
                body.extend(length.to_be_bytes());
                body.extend(frame);
                file.extend(block(6, &body));
            }
            file
        }
    }

    fn packets() -> Vec<(u32, u32, Vec<u8>)> {
        let big = || written::udp(1500, 5000);
        vec![
            (99, 0, written::udp(100, 6000)),
            (100, 0, big()),
            (100, 400, big()),
            (100, 1000, written::udp(750, 5000)),
            (100, 2500, written::udp(750, 5000)),
            (101, 0, written::udp(60, 5000)),
        ]
    }

    #[test]
    fn arrivals_of_the_busiest_flow_are_a_trace_in_both_formats() {
        for file in [written::pcap(&packets()), written::pcapng(&packets())] {
            let (trace, reading) = read("c", file.as_slice()).unwrap();
            // The period is that of the flow.
            assert_eq!(trace.millis(), [0, 1, 3, 1000]);
            assert_eq!(
                reading.to_string(),
                "5 packets of UDP 192.0.2.1:5000 to 192.0.2.2:443, the busiest flow; 1 other is left \
                 out; a trace of a link only if it was always busy"
            );
        }
    }

    #[test]
    fn a_cut_capture_counts_as_far_as_it_goes() {
        let file = written::pcap(&packets());
        let (trace, reading) = read("c", &file[..file.len() - 5]).unwrap();
        assert_eq!(trace.millis(), [0, 1, 3]);
        assert!(reading.to_string().contains("the last packet is cut off"), "{reading}");
    }

    #[test]
    fn a_clock_that_was_set_back_is_no_trace() {
        let mut late = packets();
        late[1].0 = 105;
        for file in [written::pcap(&late), written::pcapng(&late)] {
            let said = read("c", file.as_slice()).unwrap_err().to_string();
            assert!(said.contains("packet 3: is 4999 ms before"), "{said}");
        }
        let mut exchanged = packets();
        exchanged.swap(2, 3);
        assert!(read("c", written::pcap(&exchanged).as_slice()).is_ok());
    }

    #[test]
    fn what_is_no_capture_is_refused_with_its_packet() {
        let said = |file: &[u8]| read("c", file).unwrap_err().to_string();
        assert!(said(b"").contains("is no capture"));
        assert!(said(b"0,1\n1,2\n").contains("is no capture"));
        assert!(said(&written::pcap(&[])).contains("there is no IP packet in it"));
        assert!(said(&written::pcap(&packets()[..1])).contains("has fewer than 1500 bytes"));
        let mut wifi = written::pcap(&packets());
        wifi[20] = 105;
        assert!(said(&wifi).contains("packet 1: the link type 105 is not read"));
        let mut long = written::pcap(&packets());
        long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(said(&long).contains("packet 1: longer than 1 MB"), "{}", said(&long));
        let mut interface = written::pcapng(&packets());
        let first = interface.len() - 6 * 76;
        interface[first + 11] = 7;
        assert!(said(&interface).contains("there is no interface 7"), "{}", said(&interface));
    }
}
