//! Captures of packets, as tcpdump and Wireshark write them: pcap and pcapng.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

/// A block is at most so long: several of the largest packets that offloads make.
// Blocks are held whole in memory, and their length comes from the file.
const MAX_BLOCK: usize = 1 << 20;
/// Interfaces of one section.
// A capture of every device of a host has some dozens; without a bound a file of headers alone
// fills the memory.
const MAX_INTERFACES: usize = 4096;
/// What offloads put into one packet at most; a longer one is a lie of its header.
const MAX_PACKET: u32 = 1 << 18;
/// What pcapng begins with.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const NANOS: u64 = 1_000_000_000;

/// What TCP, UDP and others are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP, which QUIC is to whoever captures it.
    Udp,
    /// Another protocol above IP, or a fragment.
    Other,
}

/// Packets of one direction between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CapturedFlow {
    /// From where; the port is 0 where there is none.
    pub from: SocketAddr,
    /// To where.
    pub to: SocketAddr,
    /// What is above IP.
    pub transport: Transport,
}

impl CapturedFlow {
    /// The other direction.
    #[must_use]
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from, transport: self.transport }
    }
}

impl fmt::Display for CapturedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "TCP ",
            Transport::Udp => "UDP ",
            Transport::Other => "",
        };
        write!(f, "{transport}{} to {}", self.from, self.to)
    }
}

/// What a packet of TCP says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedSegment {
    /// The number of its first byte.
    pub sequence: u32,
    /// The byte that is expected next, if it acknowledges.
    pub acknowledges: Option<u32>,
    /// Bytes of data.
    pub length: u32,
    /// Whether it opens the connection.
    pub is_syn: bool,
}

/// An IP packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedPacket {
    /// When, in nanoseconds since 1970.
    pub at: u64,
    /// Whose.
    pub flow: CapturedFlow,
    /// Its length with the header of IP.
    pub bytes: u32,
    /// What TCP says, if it is TCP.
    pub segment: Option<CapturedSegment>,
}

/// How a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureEnd {
    /// Whether the last packet is cut off, as when the program that captured was killed.
    pub is_cut: bool,
}

/// Gives every IP packet of a capture to `take`, in the order of the file. Keeps one block at most.
///
/// # Errors
/// When it is no capture, a block does not read or is longer than 1 MB, or `take` fails. Errors name the packet, from
/// 1 on.
pub fn read_capture(
    reader: impl BufRead,
    mut take: impl FnMut(CapturedPacket) -> Result<(), String>,
) -> Result<CaptureEnd, String> {
    let mut noted = Noted { reader, error: None };
    // By the first bytes: both formats are written under the name `.pcap`.
    let is_pcapng = noted.starts_with(PCAPNG_MAGIC).map_err(|error| error.to_string())?;
    let read = if is_pcapng {
        PcapNGReader::new(MAX_BLOCK, &mut noted)
            .map_err(opening)
            .and_then(|blocks| Packets::default().read(blocks, &mut take))
    } else {
        LegacyPcapReader::new(MAX_BLOCK, &mut noted)
            .map_err(opening)
            .and_then(|blocks| Packets::default().read(blocks, &mut take))
    };
    match noted.error {
        Some(error) => Err(error.to_string()),
        None => read,
    }
}

fn opening(_: PcapError<&'static [u8]>) -> String {
    "is no capture: it begins neither as pcap nor as pcapng does".to_owned()
}

/// Keeps the error of a reader, of which the parser only says that there was one.
struct Noted<R> {
    reader: R,
    error: Option<io::Error>,
}

impl<R: BufRead> Noted<R> {
    fn starts_with(&mut self, magic: [u8; 4]) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.starts_with(&magic))
    }
}

impl<R: Read> Read for &mut Noted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.error = Some(error);
                    return Err(kind.into());
                }
                read => return read,
            }
        }
    }
}

/// Where packets were captured.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Units of time in a second.
    resolution: u64,
    /// Seconds that are added to times.
    offset: i64,
}

impl Interface {
    fn described(block: &InterfaceDescriptionBlock<'_>) -> Result<Self, String> {
        // One byte has both: the highest bit chooses powers of two, the others are the negative
        // exponent.
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let base: u64 = if block.if_tsresol & 0x80 == 0 { 10 } else { 2 };
        let resolution = base
            .checked_pow(exponent)
            .ok_or_else(|| format!("if_tsresol: {base}^{exponent} units in a second"))?;
        Ok(Self { link: block.linktype, resolution, offset: block.if_tsoffset })
    }

    /// Nanoseconds since 1970.
    fn nanos(self, units: u64) -> u64 {
        // Units since 1970 times a thousand million do not fit into 64 bits.
        let nanos = u128::from(units) * u128::from(NANOS) / u128::from(self.resolution);
        let offset = i128::from(self.offset) * i128::from(NANOS);
        u64::try_from((nanos as i128).saturating_add(offset).max(0)).unwrap_or(u64::MAX)
    }
}

#[derive(Default)]
struct Packets {
    interfaces: Vec<Interface>,
    count: u64,
}

impl Packets {
    fn read(
        mut self,
        mut blocks: impl PcapReaderIterator,
        take: &mut impl FnMut(CapturedPacket) -> Result<(), String>,
    ) -> Result<CaptureEnd, String> {
        loop {
            let problem = match blocks.next() {
                Ok((length, block)) => {
                    let packet = self.packet(&block)?;
                    packet.map_or(Ok(()), &mut *take).map_err(|why| self.named(&why))?;
                    blocks.consume(length);
                    continue;
                }
                Err(PcapError::Eof) => return Ok(CaptureEnd { is_cut: false }),
                Err(PcapError::UnexpectedEof) => return Ok(CaptureEnd { is_cut: true }),
                Err(PcapError::Incomplete(_)) => {
                    if blocks.refill().is_ok() {
                        continue;
                    }
                    "cannot be read"
                }
                Err(PcapError::BufferTooSmall) => "longer than 1 MB",
                Err(_) => "is damaged",
            };
            self.count += 1;
            return Err(self.named(problem));
        }
    }

    fn named(&self, why: &str) -> String {
        format!("packet {}: {why}", self.count)
    }

    fn packet(&mut self, block: &PcapBlockOwned<'_>) -> Result<Option<CapturedPacket>, String> {
        let (interface, units, length, data) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                // The magic number of the header says which of the two units the second word of a
                // time has.
                let resolution = if header.is_nanosecond_precision() { NANOS } else { 1_000_000 };
                self.interfaces = vec![Interface { link: header.network, resolution, offset: 0 }];
                return Ok(None);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                // Interfaces are numbered anew in each section: files may be put one behind the
                // other.
                self.interfaces.clear();
                return Ok(None);
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return Err(format!("more than {MAX_INTERFACES} interfaces"));
                }
                let number = self.interfaces.len() + 1;
                let interface = Interface::described(described)
                    .map_err(|why| format!("interface {number}: {why}"))?;
                self.interfaces.push(interface);
                return Ok(None);
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                (packet.if_id as usize, units, packet.origlen, captured(packet.data, packet.caplen))
            }
            PcapBlockOwned::Legacy(packet) => {
                let resolution = self.interfaces.first().map_or(1_000_000, |it| it.resolution);
                let units = u64::from(packet.ts_sec) * resolution + u64::from(packet.ts_usec);
                (0, units, packet.origlen, captured(packet.data, packet.caplen))
            }
            // What has no time is of no use here.
            PcapBlockOwned::NG(_) => return Ok(None),
        };
        self.count += 1;
        // A number from the file: packets may name an interface that was never described.
        let Some(interface) = self.interfaces.get(interface).copied() else {
            return Err(self.named(&format!("there is no interface {interface}")));
        };
        let packet = ip_packet(interface.link, data, length).map_err(|why| self.named(&why))?;
        Ok(packet.map(|packet| CapturedPacket { at: interface.nanos(units), ..packet }))
    }
}

/// Without what fills a block up.
fn captured(data: &[u8], length: u32) -> &[u8] {
    &data[..data.len().min(length as usize)]
}

/// The IP packet in a frame, at no time; `None`: there is none.
fn ip_packet(link: Linktype, data: &[u8], length: u32) -> Result<Option<CapturedPacket>, String> {
    let behind = |bytes: usize| data.get(bytes..).unwrap_or_default();
    let by_type = |place: usize, bytes: usize| {
        let kind = data.get(place..place + 2).map_or(0, |it| u16::from_be_bytes([it[0], it[1]]));
        Some(LaxSlicedPacket::from_ether_type(EtherType(kind), behind(bytes)))
    };
    let sliced = match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
        // Four bytes of address family stand in front, in the order of bytes of the machine that
        // wrote them.
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(behind(4)).ok(),
        Linktype::LINUX_SLL => by_type(14, 16),
        Linktype::LINUX_SLL2 => by_type(0, 20),
        Linktype(other) => {
            return Err(format!(
                "the link type {other} is not read; Ethernet, raw IP, loopback and Linux's cooked ones are"
            ));
        }
    };
    Ok(sliced.and_then(|sliced| of_slices(&sliced, data, length)))
}

fn of_slices(sliced: &LaxSlicedPacket<'_>, data: &[u8], length: u32) -> Option<CapturedPacket> {
    let (from, to, said, header, begin): (IpAddr, IpAddr, u32, u32, _) =
        match sliced.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                let (from, to) = (header.source_addr().into(), header.destination_addr().into());
                let begin = header.slice().as_ptr() as usize;
                (from, to, u32::from(header.total_len()), header.slice().len() as u32, begin)
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                let (from, to) = (header.source_addr().into(), header.destination_addr().into());
                let said = match header.payload_length() {
                    0 => 0,
                    payload => u32::from(payload) + 40,
                };
                (from, to, said, 40, header.slice().as_ptr() as usize)
            }
            LaxNetSlice::Arp(_) => return None,
        };
    // Offloads leave the length of large packets out.
    let of_frame = length.saturating_sub((begin - data.as_ptr() as usize) as u32);
    let bytes = if said == 0 { of_frame } else { said }.min(MAX_PACKET);
    let (from_port, to_port, transport) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            (tcp.source_port(), tcp.destination_port(), Transport::Tcp)
        }
        Some(TransportSlice::Udp(udp)) => {
            (udp.source_port(), udp.destination_port(), Transport::Udp)
        }
        // Fragments behind the first have no ports, and count for a flow of their addresses alone.
        _ => (0, 0, Transport::Other),
    };
    let segment = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => Some(CapturedSegment {
            sequence: tcp.sequence_number(),
            acknowledges: tcp.ack().then(|| tcp.acknowledgment_number()),
            length: bytes.saturating_sub(header + tcp.header_slice().len() as u32),
            is_syn: tcp.syn(),
        }),
        _ => None,
    };
    let flow = CapturedFlow {
        from: SocketAddr::new(from, from_port),
        to: SocketAddr::new(to, to_port),
        transport,
    };
    Some(CapturedPacket { at: 0, flow, bytes, segment })
}
