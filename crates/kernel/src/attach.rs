//! Puts connections of programs that cannot be preloaded under the kernel driver: a program of BPF
//! on their cgroup gives them to the controlling process at the end of their handshakes.
//!
//! Nothing of it is pinned: it ends with the process.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use thiserror::Error;

use crate::KernelError;
use crate::driver::layout::NAME_BYTES;
use crate::driver::ring::RecordRing;
use crate::facts::Facts;
use crate::host::cgroup::{self, CgroupError};
use crate::host::pins::{open, pins};

/// The program as clang left it.
const ATTACH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attach.bpf.o"));

/// Ranges of ports of each direction at most: `MAX_RANGES` of bpf/attach.bpf.c.
pub const MAX_RANGES: usize = 64;

/// Arms at most: `MAX_ARMS` of bpf/attach.bpf.c.
pub const MAX_ARMS: usize = 16;

const RULES_BYTES: usize = 560;
const DRAWING_BYTES: usize = 72;
const CLIENT_BYTES: usize = 12;
const ANNOUNCEMENT_BYTES: usize = 64;
/// `ANNOUNCEMENTS` of bpf/attach.bpf.c.
const RING_BYTES: usize = 1 << 20;

/// Names of the capabilities that attaching needs and the process with these facts lacks.
pub fn missing_capabilities(facts: &Facts) -> Vec<&'static str> {
    const NET_ADMIN: u32 = 12;
    let mut missing = facts.missing_capabilities();
    if facts.capabilities & (1 << NET_ADMIN) == 0 {
        missing.push("CAP_NET_ADMIN");
    }
    missing
}

/// What connections get.
#[derive(Debug, Clone, Copy)]
pub struct AttachArm<'a> {
    /// Name of the kernel driver, or of a congestion control that the kernel has by itself; empty: what they
    /// have.
    pub name: &'a str,
    /// The controlling process's slot at the kernel driver, and the slot's owner; `None` for all else.
    pub slot: Option<(u32, u64)>,
}

/// Which arm a connection gets.
#[derive(Debug, Clone, Copy)]
pub enum ArmDraw<'a> {
    /// The first, until another one is [chosen](Attachment::choose) for all.
    Chosen,
    /// The one that its client's network [has](Attachment::put_client); until then the first.
    Client,
    /// Each with this probability; with what is left to 1, the first.
    Connection(&'a [f64]),
}

/// Which connections, and whose they shall be.
#[derive(Debug, Clone)]
pub struct AttachOptions<'a> {
    /// What connections can get; from 1 to [`MAX_ARMS`].
    pub arms: &'a [AttachArm<'a>],
    /// Which of these each gets.
    pub draw: ArmDraw<'a>,
    /// This share of connections, from 0 to 1, is taken, the others stay as they are.
    pub share: f64,
    /// First and last port of ranges where connections are accepted.
    pub accepted: &'a [(u16, u16)],
    /// The same of ports to which connections are opened.
    pub opened: &'a [(u16, u16)],
}

/// A connection that is under the kernel driver from now on, with a window of ten packets until
/// somebody sets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Its cookie.
    pub cookie: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// Payload of a full packet in bytes.
    pub mss: u32,
    /// Headers that go with each, in bytes.
    pub overhead: u32,
    /// Bytes that TCP counts as acknowledged.
    pub acked: u64,
    /// The program opened it, and did not accept it.
    pub opened: bool,
    /// The place of what it got among the arms.
    pub arm: usize,
    /// The arm was drawn for it, or chosen; it is the first for want of another otherwise.
    pub is_drawn: bool,
}

/// Connections at the ports that are not under control, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Missed {
    /// Announcements were not read in time.
    pub unannounced: u64,
    /// Too many sockets are under control.
    pub full: u64,
    /// The congestion control is not there any more.
    pub refused: u64,
}

/// Why nothing is attached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// More than there is room for, or none at all.
    #[error("1 to {MAX_RANGES} ranges of ports")]
    Ranges,
    /// The same of arms.
    #[error("1 to {MAX_ARMS} arms")]
    Arms,
    /// There is no kernel driver.
    #[error(transparent)]
    Driver(#[from] KernelError),
    /// Where it should be attached.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// libbpf or the kernel refused.
    #[error("{doing}: {source}{hint}")]
    Bpf {
        /// What we were doing.
        doing: &'static str,
        /// Why not.
        source: libbpf_rs::Error,
        /// What to do, as a half sentence.
        hint: &'static str,
    },
    /// The cgroup cannot be opened.
    #[error("{}: {source}", .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn bpf(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> AttachError {
    move |source| {
        let hint = match source.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => {
                " (needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)"
            }
            _ => "",
        };
        AttachError::Bpf { doing, source, hint }
    }
}

/// While it lives, connections of the cgroup's programs go under control.
#[derive(Debug)]
pub struct Attachment {
    // Detached before anything that it needs goes.
    _link: Link,
    missed: MapHandle,
    drawing: MapHandle,
    clients: MapHandle,
    ring: RecordRing,
    _object: Object,
}

impl Attachment {
    /// Attaches to a cgroup, and so to all below it. Connections that exist already stay as they
    /// are, and those of which somebody else decides.
    ///
    /// # Errors
    /// When the kernel driver is not installed where it has the name, or the kernel, or our privilege, does not allow it.
    pub fn new(cgroup: &Path, options: &AttachOptions<'_>) -> Result<Self, AttachError> {
        let rules = encode(options)?;
        cgroup::check(cgroup)?;
        let folder = File::open(cgroup)
            .map_err(|source| AttachError::Open { path: cgroup.to_owned(), source })?;
        let object = load(options)?;
        put(&object, &rules)?;
        let (missed, drawing) = (map(&object, "missed")?, map(&object, "drawing")?);
        put_drawing(&drawing, options.draw).map_err(bpf("handing over how arms are drawn"))?;
        let clients = map(&object, "clients")?;
        let ring = announcements(&object)?;
        let program = object
            .progs_mut()
            .find(|program| program.name() == "attach")
            .ok_or_else(|| bpf("opening the program")(invalid()))?
            .attach_cgroup(folder.as_raw_fd());
        let link = program.map_err(bpf("attaching the program to the cgroup"))?;
        Ok(Self { _link: link, missed, drawing, clients, ring, _object: object })
    }

    /// The descriptor that is readable when announcements wait. For waiting only.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// What all connections get from now on: the place of an arm.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn choose(&self, arm: usize) -> io::Result<()> {
        let mut bytes = [0u8; DRAWING_BYTES];
        bytes[4..8].copy_from_slice(&place(Some(arm)));
        let chosen = self.drawing.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY);
        chosen.map_err(io::Error::other)
    }

    /// What connections of a client's network, IPv4 /24 or IPv6 /64, get from now on: the place of an arm, or
    /// the first, as not drawn for them.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn put_client(&self, client: IpAddr, arm: Option<usize>) -> io::Result<()> {
        let put = self.clients.update(&network(client), &place(arm), MapFlags::ANY);
        put.map_err(io::Error::other)
    }

    /// Hands out the connections that are new.
    pub fn drain(&mut self, mut each: impl FnMut(Announced)) {
        self.ring.drain::<ANNOUNCEMENT_BYTES>(usize::MAX, |bytes| each(decode(bytes)));
    }

    /// What was not put under control until now.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn missed(&self) -> io::Result<Missed> {
        let value = self.missed.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(io::Error::other)?.ok_or(io::ErrorKind::NotFound)?;
        let count = |at: usize| {
            let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Ok(Missed { unannounced: count(0), full: count(8), refused: count(16) })
    }
}

fn invalid() -> libbpf_rs::Error {
    io::Error::from(io::ErrorKind::InvalidData).into()
}

fn opened() -> Result<OpenObject, AttachError> {
    ObjectBuilder::default().open_memory(ATTACH).map_err(bpf("opening the program"))
}

/// With the kernel driver's own table of controls, where an arm is the kernel driver.
fn load(options: &AttachOptions<'_>) -> Result<Object, AttachError> {
    let using = "using the kernel driver's controls";
    let mut object = opened()?;
    for mut map in object.maps_mut().filter(|map| map.name() == "controls") {
        let Some(driver) = options.arms.iter().find(|arm| arm.slot.is_some()) else {
            map.set_max_entries(1).map_err(bpf(using))?;
            continue;
        };
        let controls = open(&pins(driver.name), "controls")?;
        map.reuse_fd(controls.as_fd()).map_err(bpf(using))?;
    }
    object.load().map_err(bpf("loading the program"))
}

fn map(object: &Object, name: &str) -> Result<MapHandle, AttachError> {
    let found = object.maps().find(|map| map.name() == name);
    let map = found.ok_or_else(|| bpf("opening the program")(invalid()))?;
    MapHandle::try_from(&map).map_err(bpf("opening a map"))
}

fn put(object: &Object, rules: &[[u8; RULES_BYTES]]) -> Result<(), AttachError> {
    let map = map(object, "rules")?;
    for (arm, rules) in (0_u32..).zip(rules) {
        map.update(&arm.to_ne_bytes(), rules, MapFlags::ANY)
            .map_err(bpf("handing over the rules"))?;
    }
    Ok(())
}

/// `struct drawing`.
fn put_drawing(map: &MapHandle, draw: ArmDraw<'_>) -> libbpf_rs::Result<()> {
    let mut bytes = [0u8; DRAWING_BYTES];
    let (by, parts) = match draw {
        ArmDraw::Chosen => (0_u32, &[][..]),
        ArmDraw::Client => (1, &[][..]),
        ArmDraw::Connection(parts) => (2, parts),
    };
    bytes[..4].copy_from_slice(&by.to_ne_bytes());
    let mut below = 0.0;
    for (place, part) in bytes[8..].chunks_exact_mut(4).zip(parts) {
        below += part;
        place.copy_from_slice(&((below * f64::from(u32::MAX)).round() as u32).to_ne_bytes());
    }
    map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY)
}

/// An arm, or `MAX_ARMS` of none.
fn place(arm: Option<usize>) -> [u8; 4] {
    (arm.unwrap_or(MAX_ARMS).min(MAX_ARMS) as u32).to_ne_bytes()
}

/// `struct client`.
fn network(client: IpAddr) -> [u8; CLIENT_BYTES] {
    let mut bytes = [0u8; CLIENT_BYTES];
    match client.to_canonical() {
        IpAddr::V4(ip) => {
            bytes[..3].copy_from_slice(&ip.octets()[..3]);
            bytes[8..].copy_from_slice(&1u32.to_ne_bytes());
        }
        IpAddr::V6(ip) => bytes[..8].copy_from_slice(&ip.octets()[..8]),
    }
    bytes
}

fn announcements(object: &Object) -> Result<RecordRing, AttachError> {
    let system = |error: io::Error| bpf("mapping a ring buffer")(error.into());
    let fd = map(object, "announcements")?.as_fd().try_clone_to_owned().map_err(system)?;
    RecordRing::new(fd.into(), RING_BYTES).map_err(system)
}

/// `struct rules` of each arm.
fn encode(options: &AttachOptions<'_>) -> Result<Vec<[u8; RULES_BYTES]>, AttachError> {
    let AttachOptions { arms, accepted, opened, .. } = options;
    let is_some = !accepted.is_empty() || !opened.is_empty();
    if !is_some || accepted.len() > MAX_RANGES || opened.len() > MAX_RANGES {
        return Err(AttachError::Ranges);
    }
    if arms.is_empty() || arms.len() > MAX_ARMS {
        return Err(AttachError::Arms);
    }
    arms.iter().map(|arm| encode_arm(arm, options)).collect()
}

fn encode_arm(
    arm: &AttachArm<'_>,
    options: &AttachOptions<'_>,
) -> Result<[u8; RULES_BYTES], AttachError> {
    let AttachArm { name, slot } = arm;
    let AttachOptions { accepted, opened, share, .. } = options;
    let (slot_number, owner) = slot.unwrap_or_default();
    if name.len() >= NAME_BYTES {
        return Err(KernelError::NotInstalled.into());
    }
    let mut bytes = [0u8; RULES_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[16..24].copy_from_slice(&owner.to_ne_bytes());
    bytes[24..28].copy_from_slice(&slot_number.to_ne_bytes());
    put_ranges(&mut bytes[28..288], accepted);
    put_ranges(&mut bytes[288..548], opened);
    bytes[548..552].copy_from_slice(&u32::from(slot.is_none()).to_ne_bytes());
    // All are wanted at the most.
    let share = (share * f64::from(u32::MAX)) as u32;
    bytes[552..556].copy_from_slice(&share.to_ne_bytes());
    Ok(bytes)
}

fn put_ranges(bytes: &mut [u8], ranges: &[(u16, u16)]) {
    let (count, places) = bytes.split_at_mut(4);
    count.copy_from_slice(&(ranges.len() as u32).to_ne_bytes());
    for (place, (first, last)) in places.chunks_exact_mut(4).zip(ranges) {
        place[..2].copy_from_slice(&first.to_ne_bytes());
        place[2..].copy_from_slice(&last.to_ne_bytes());
    }
}

/// `struct announcement`.
fn decode(bytes: &[u8; ANNOUNCEMENT_BYTES]) -> Announced {
    let array = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
    let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let (local, peer) = (address(&bytes[16..32]), address(&bytes[32..48]));
    // RFC 791 section 3.1, RFC 8200 section 3.
    let network = if peer.is_ipv4() { 20 } else { 40 };
    let [a, b, c, d, ..] = array(52);
    Announced {
        cookie: u64::from_ne_bytes(array(0)),
        acked: u64::from_ne_bytes(array(8)),
        local: SocketAddr::new(local, short(48)),
        peer: SocketAddr::new(peer, short(50)),
        mss: u32::from_ne_bytes([a, b, c, d]),
        overhead: network + u32::from(short(56)),
        opened: bytes[58] != 0,
        arm: bytes[59].into(),
        is_drawn: bytes[60] != 0,
    }
}

fn address(bytes: &[u8]) -> IpAddr {
    let bytes: [u8; 16] = bytes.try_into().expect("sixteen bytes");
    Ipv6Addr::from(bytes).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::layout::CONTROL_BYTES;

    fn options<'a>(accepted: &'a [(u16, u16)]) -> AttachOptions<'a> {
        const ARMS: &[AttachArm<'_>] = &[AttachArm { name: "cellpace", slot: Some((3, 7)) }];
        AttachOptions { arms: ARMS, draw: ArmDraw::Chosen, share: 1.0, accepted, opened: &[] }
    }

    #[test]
    fn the_program_and_user_space_have_the_same_layout() {
        let object = opened().unwrap();
        let size = |name: &str| {
            object.maps().find(|map| map.name() == name).unwrap().value_size() as usize
        };
        assert_eq!(size("rules"), RULES_BYTES);
        assert_eq!(size("missed"), 24);
        assert_eq!(size("drawing"), DRAWING_BYTES);
        let clients = object.maps().find(|map| map.name() == "clients").unwrap();
        assert_eq!(clients.key_size() as usize, CLIENT_BYTES);
        assert_eq!(size("controls"), CONTROL_BYTES);
    }

    #[test]
    fn rules_are_written_as_the_program_reads_them() {
        let opened = [(9000, 9100)];
        let rules = AttachOptions { opened: &opened, ..options(&[(80, 80), (443, 444)]) };
        let bytes = encode(&rules).unwrap()[0];
        assert_eq!(bytes[552..556], u32::MAX.to_ne_bytes());
        let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!(&bytes[..9], b"cellpace\0");
        assert_eq!((bytes[28], short(32), short(36), short(38)), (2, 80, 443, 444));
        assert_eq!((bytes[288], short(292), short(294)), (1, 9000, 9100));
    }

    #[test]
    fn no_ports_and_too_many_are_refused() {
        assert!(matches!(encode(&options(&[])), Err(AttachError::Ranges)));
        let most = [(1, 1); MAX_RANGES + 1];
        assert!(matches!(encode(&options(&most)), Err(AttachError::Ranges)));
        assert!(encode(&options(&most[1..])).is_ok());
        let none = AttachOptions { arms: &[], ..options(&most[1..]) };
        assert!(matches!(encode(&none), Err(AttachError::Arms)));
    }

    #[test]
    fn an_announcement_of_ipv4_and_of_ipv6_reads() {
        let mut bytes = [0u8; ANNOUNCEMENT_BYTES];
        bytes[0] = 9;
        bytes[16..32].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1]);
        bytes[32..48].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 2]);
        bytes[48..50].copy_from_slice(&443u16.to_ne_bytes());
        bytes[50..52].copy_from_slice(&50_000u16.to_ne_bytes());
        bytes[52..56].copy_from_slice(&1448u32.to_ne_bytes());
        bytes[56..58].copy_from_slice(&32u16.to_ne_bytes());
        let announced = decode(&bytes);
        assert_eq!(
            (announced.local, announced.peer),
            ("10.0.0.1:443".parse().unwrap(), "10.0.0.2:50000".parse().unwrap(),)
        );
        assert_eq!((announced.mss, announced.overhead, announced.opened), (1448, 52, false));
        bytes[32] = 0x20;
        bytes[58] = 1;
        let announced = decode(&bytes);
        assert!(announced.peer.is_ipv6() && announced.overhead == 72 && announced.opened);
    }
}
