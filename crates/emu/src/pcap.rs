//! Packets as pcapng, for Wireshark and tcpdump.

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cellpace_base::Time;
use cellpace_report::{Aside, ReportError};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::LinkSide;

/// What stands before each packet, as `LINKTYPE_LOOP` has it: the address family, in network byte
/// order. Raw IP would need nothing, but tcpdump (libpcap) takes two interfaces of that type for
/// interfaces of different types and reads nothing.
const FAMILY: usize = 4;

/// Writes packets to a pcapng file with two interfaces, `far` and `inside`: a packet that goes
/// through the link is seen at both, with the times at which it was really read and written, and
/// one that the model drops at the first only. The file appears under its name with
/// [`PcapngLog::finish`].
pub struct PcapngLog {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<Aside>>,
    /// The run's time zero.
    origin: Duration,
}

impl PcapngLog {
    /// A capture that will be at `path`, of a run that begins about now; `bytes` are kept of each
    /// packet at most.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path, bytes: u32) -> Result<Self, ReportError> {
        let aside = BufWriter::with_capacity(1 << 18, Aside::create(path)?);
        let named = |error| named(path, error);
        let mut writer = PcapNgWriter::new(aside).map_err(named)?;
        for name in ["far", "inside"] {
            /// Nanoseconds: ten to the power of minus nine.
            const NANOSECONDS: u8 = 9;
            let mut interface =
                InterfaceDescriptionBlock::new(DataLink::LOOP, bytes + FAMILY as u32);
            interface.options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            writer.write_pcapng_block(interface).map_err(named)?;
        }
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { path: path.to_owned(), writer, origin })
    }

    /// Adds a packet of `length` bytes as it passed a device at `at`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn push(
        &mut self,
        side: LinkSide,
        at: Time,
        length: u32,
        bytes: &[u8],
    ) -> Result<(), ReportError> {
        let framed = [&family(bytes), bytes].concat();
        let block = EnhancedPacketBlock {
            interface_id: u32::from(side == LinkSide::Inside),
            timestamp: self.origin + Duration::from_nanos(at.as_nanos()),
            original_len: length + FAMILY as u32,
            data: Cow::Owned(framed),
            options: Vec::new(),
        };
        let written = self.writer.write_pcapng_block(block);
        written.map(drop).map_err(|error| named(&self.path, error))
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<(), ReportError> {
        let mut writer = self.writer.into_inner();
        let flushed = writer.flush().and_then(|()| Ok(writer.into_inner()?));
        flushed.map_err(|error| ReportError::io(&self.path, error))?.commit()
    }
}

/// `AF_INET`, or the `AF_INET6` of BSD, which readers of `LINKTYPE_LOOP` know.
fn family(packet: &[u8]) -> [u8; FAMILY] {
    let is_ipv6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    [0, 0, 0, if is_ipv6 { 24 } else { 2 }]
}

fn named(path: &Path, error: PcapError) -> ReportError {
    let source = match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other),
    };
    ReportError::io(path, source)
}

/// Whether a file's name asks for pcapng.
pub fn is_pcapng(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "pcapng" || ext == "pcap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    type Captured = (u32, u64, u32, Vec<u8>);

    fn read(path: &Path) -> Vec<Captured> {
        let mut reader = PcapNgReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                let at = packet.timestamp.as_nanos() as u64;
                let bytes = packet.data.into_owned();
                packets.push((packet.interface_id, at, packet.original_len, bytes));
            }
        }
        packets
    }

    #[test]
    fn packets_read_back_from_both_sides() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pcapng");
        let mut log = PcapngLog::create(&path, 4).unwrap();
        log.push(LinkSide::Far, Time::from_micros(1), 1500, &[1, 2, 3, 4]).unwrap();
        log.push(LinkSide::Inside, Time::from_millis(20), 3, &[0x60, 6, 7]).unwrap();
        assert!(!path.exists(), "only a whole capture has the name");
        log.finish().unwrap();
        let packets = read(&path);
        assert_eq!(packets[1].1 - packets[0].1, 19_999_000);
        let rest: Vec<_> = packets.into_iter().map(|(side, _, len, b)| (side, len, b)).collect();
        let ipv4 = (0, 1504, vec![0, 0, 0, 2, 1, 2, 3, 4]);
        let ipv6 = (1, 7, vec![0, 0, 0, 24, 0x60, 6, 7]);
        assert_eq!(rest, [ipv4, ipv6]);
    }
}
