//! Sockets under a controller that runs in the kernel by itself: what each does, and how to move them to
//! another congestion control.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use libbpf_rs::{
    Iter, IterOpts, Link, MapCore, MapFlags, MapType, Object, ObjectBuilder, ProgramMut,
};

use super::NativeController;
use super::about;
use super::install::{object_of, program_hash};
use super::object::{NAME_BYTES, NativeError, bpf};
use crate::KernelError;
use crate::host::ids;
use crate::host::pins::pins;
use crate::table::put_text;

/// The program that moves sockets, as clang left it.
const SOCKETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));

/// Bytes of `struct native_socket` of bpf/native.h.
const RECORD: usize = 112;
/// How the names of programs that show sockets end.
const SHOW: &str = "law_shown";
/// `AF_INET6`
const IPV6: u16 = 10;

/// What a socket under a controller does at the moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketState {
    /// This side.
    pub local: SocketAddr,
    /// The other side.
    pub remote: SocketAddr,
    /// `steady`, `slow start`, `search` (for the base RTT) or `rivals`.
    pub phase: &'static str,
    /// Congestion window in packets.
    pub window: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Bytes of a full packet.
    pub packet: u32,
    /// Base RTT in microseconds; 0 before the first sample.
    pub base_us: u32,
    /// Smoothed RTT of TCP in microseconds.
    pub srtt_us: u32,
    /// Queueing delay that the last ack has shown, in microseconds.
    pub queue_us: u32,
    /// The rate at which the path delivers, in bytes per second.
    pub rate: u64,
    /// Pacing rate in bytes per second; all bits set: not paced.
    pub pacing: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes sent, retransmissions with them.
    pub sent: u64,
    /// Packets sent, retransmissions with them.
    pub segments: u32,
    /// Packets sent again.
    pub retransmitted: u32,
    /// Inode of its network namespace, as of `/proc/PID/ns/net`.
    pub namespace: u32,
}

impl SocketState {
    fn read(bytes: &[u8; RECORD]) -> Self {
        let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let long =
            |at: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[at + byte]));
        let address = |at: usize| -> IpAddr {
            let mut long = [0; 16];
            long.copy_from_slice(&bytes[at..at + 16]);
            if short(32) == IPV6 {
                return Ipv6Addr::from(long).to_canonical();
            }
            Ipv4Addr::new(long[0], long[1], long[2], long[3]).into()
        };
        Self {
            local: SocketAddr::new(address(0), short(34)),
            remote: SocketAddr::new(address(16), short(36)),
            phase: match short(38) {
                1 => "slow start",
                2 => "search",
                3 => "rivals",
                _ => "steady",
            },
            window: word(40),
            in_flight: word(44),
            packet: word(48),
            base_us: word(52),
            srtt_us: word(56),
            queue_us: word(60),
            rate: long(64),
            pacing: long(72),
            acked: long(80),
            sent: long(88),
            segments: word(96),
            retransmitted: word(100),
            namespace: word(104),
        }
    }
}

/// Reads the sockets of a controller, as often as asked, in all network namespaces. Costs nothing meanwhile.
pub struct Watch {
    native: NativeController,
    name: String,
    /// The number of the map of its sockets.
    flows: u32,
    /// What its pin was when the registration was last looked for, which takes milliseconds.
    pinned: Option<[u8; 24]>,
    link: Link,
    _object: Object,
    /// Of the last reading, whose room the next one has.
    bytes: Vec<u8>,
}

impl Watch {
    /// Looks for the controller under `name`.
    ///
    /// # Errors
    /// When it is not installed, or by another version, or this process may not look.
    pub fn open(native: NativeController, name: &str) -> Result<Self, NativeError> {
        let installed =
            about::installed(name)?.ok_or_else(|| KernelError::Absent(name.to_owned()))?;
        if installed.program != program_hash(native) {
            let (name, version) = (name.to_owned(), installed.version);
            return Err(KernelError::OtherProgram { name, version }.into());
        }
        let found = about::registered(name)?;
        let flows = found.iter().flat_map(|found| &found.maps).find(|map| map.name == "flows");
        let flows = flows.ok_or(NativeError::Missing("flows"))?;
        let mut object = show_program(native).map_err(bpf("loading what shows sockets"))?;
        let link = program(&mut object, SHOW)?.attach_iter(flows.map.as_fd());
        let link = link.map_err(bpf("attaching what shows sockets"))?;
        let (flows, pinned, bytes) = (flows.number, ids::pinned(&pins(name)).ok(), Vec::new());
        Ok(Self { native, name: name.to_owned(), flows, pinned, link, _object: object, bytes })
    }

    /// Goes on with the program that new connections get, where another has taken its place. Returns whether
    /// one is installed: otherwise open connections keep to the program before, and are read as before.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn follow(&mut self) -> Result<bool, NativeError> {
        let pinned = ids::pinned(&pins(&self.name)).ok();
        if pinned.is_some() && pinned == self.pinned {
            return Ok(true);
        }
        let Some(found) = about::registered(&self.name)? else { return Ok(false) };
        self.pinned = pinned;
        if !found.maps.iter().any(|map| map.number == self.flows) {
            *self = Self::open(self.native, &self.name)?;
        }
        Ok(true)
    }

    /// Reads all sockets into `sockets`, in the place of those before.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn read(&mut self, sockets: &mut Vec<SocketState>) -> Result<(), NativeError> {
        sockets.clear();
        self.bytes.clear();
        read_all(&self.link, &mut self.bytes)?;
        let (records, _) = self.bytes.as_chunks::<RECORD>();
        sockets.extend(records.iter().map(SocketState::read));
        Ok(())
    }
}

/// The object of a controller, of which only the program that shows sockets is loaded.
fn show_program(native: NativeController) -> libbpf_rs::Result<Object> {
    let mut object = ObjectBuilder::default().open_memory(object_of(native))?;
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
        map.set_autocreate(false)?;
    }
    for mut program in object.progs_mut() {
        let shows = program.name().to_string_lossy().ends_with(SHOW);
        program.set_autoload(shows);
    }
    object.load()
}

/// The program of an object that goes through sockets.
fn program<'a>(object: &'a mut Object, end: &str) -> Result<ProgramMut<'a>, NativeError> {
    let mut programs = object.progs_mut();
    let found = programs.find(|program| program.name().to_string_lossy().ends_with(end));
    found.ok_or(NativeError::Missing("program that goes through sockets"))
}

/// Moves the TCP sockets of this network namespace, listening ones too, from one congestion control to
/// another; where both have one name, to the program that it now is. Returns how many it moved.
///
/// # Errors
/// When the kernel does not let us.
pub fn move_sockets(from: &str, to: &str) -> Result<u64, NativeError> {
    let moving = "moving sockets to another congestion control";
    let mut open = ObjectBuilder::default().open_memory(SOCKETS).map_err(bpf(moving))?;
    for mut map in open.maps_mut().filter(|map| map.name().to_string_lossy().ends_with(".names")) {
        let value = map.initial_value_mut().ok_or(NativeError::Missing("names"))?;
        for (place, name) in value.chunks_exact_mut(NAME_BYTES).zip([from, to]) {
            put_text(place, name);
        }
    }
    let mut object = open.load().map_err(bpf(moving))?;
    let link =
        program(&mut object, "move")?.attach_iter_with_opts(IterOpts::None).map_err(bpf(moving))?;
    read_all(&link, &mut Vec::new())?;
    let count = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
    let count = count.ok_or(NativeError::Missing("count"))?;
    let value = count.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(bpf(moving))?;
    let word = value.as_deref().and_then(|value| value.first_chunk());
    Ok(word.map_or(0, |word| u64::from_ne_bytes(*word)))
}

fn read_all(link: &Link, bytes: &mut Vec<u8>) -> Result<(), NativeError> {
    let reading = "reading sockets";
    let mut iterator = Iter::new(link).map_err(bpf(reading))?;
    iterator.read_to_end(bytes).map_err(KernelError::system(reading))?;
    Ok(())
}
