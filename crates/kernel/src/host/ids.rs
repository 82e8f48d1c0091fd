//! Objects of BPF by their numbers: for what has no pin, or none that we see. Needs CAP_SYS_ADMIN.

#![allow(unsafe_code, reason = "bpf(2)")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
#[cfg(feature = "install")]
use std::path::Path;

use super::bpf::{Map, bpf};

const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const LINK_DETACH: libc::c_long = 34;

/// What has numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectKind {
    Map,
    Program,
    Link,
}

impl ObjectKind {
    const fn next(self) -> libc::c_long {
        match self {
            Self::Program => 11,
            Self::Map => 12,
            Self::Link => 31,
        }
    }

    const fn open(self) -> libc::c_long {
        match self {
            Self::Program => 13,
            Self::Map => 14,
            Self::Link => 30,
        }
    }
}

/// Argument of the commands about numbers.
#[repr(C)]
#[derive(Default)]
struct ObjectNumber {
    number: u32,
    /// Written by the kernel.
    next: u32,
    flags: u32,
}

/// Argument of the command that returns facts.
#[repr(C)]
struct InfoRequest {
    fd: u32,
    /// Written by the kernel.
    length: u32,
    facts: u64,
}

/// Numbers of all objects of a kind, ascending, until an error.
pub(crate) fn all(kind: ObjectKind) -> impl Iterator<Item = io::Result<u32>> {
    let mut after = Some(0);
    std::iter::from_fn(move || {
        let found = next(kind, after?).transpose();
        after = found.as_ref().and_then(|found| found.as_ref().ok().copied());
        found
    })
}

fn next(kind: ObjectKind, after: u32) -> io::Result<Option<u32>> {
    let mut number = ObjectNumber { number: after, ..ObjectNumber::default() };
    // SAFETY: the kernel writes the next number into the argument, and nowhere else.
    match unsafe { bpf(kind.next(), &mut number) } {
        Ok(_) => Ok(Some(number.next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None` when it is gone meanwhile, or about to go.
pub(crate) fn open(kind: ObjectKind, number: u32) -> io::Result<Option<OwnedFd>> {
    let mut number = ObjectNumber { number, ..ObjectNumber::default() };
    // SAFETY: the argument holds numbers only.
    match unsafe { bpf(kind.open(), &mut number) } {
        // SAFETY: the kernel has just made this descriptor for us alone.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EAGAIN)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The first bytes of what the kernel returns, zeros after that; `facts` may hold requests.
///
/// # Safety
/// What `facts` points to must be as the kernel's struct for the kind of object wants it.
unsafe fn ask(fd: BorrowedFd<'_>, facts: &mut [u8]) -> io::Result<()> {
    let length = u32::try_from(facts.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let fd = fd.as_raw_fd().cast_unsigned();
    let mut ask = InfoRequest { fd, length, facts: facts.as_mut_ptr() as u64 };
    // SAFETY: the kernel writes at most `length` bytes and then `length` itself; what the bytes point
    // to is the caller's promise.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut ask) }.map(drop)
}

/// What tells a pinned link or map from others: of `struct bpf_link_info` and `struct bpf_map_info` the first words
/// have its number, and of a link that registers a map that of the map.
#[cfg(feature = "install")]
pub(crate) fn pinned(pin: &Path) -> io::Result<[u8; 24]> {
    use std::os::fd::AsFd;
    let object = Map::open(pin)?;
    let mut facts = [0; 24];
    // SAFETY: zeros ask for nothing to be written elsewhere.
    unsafe { ask(object.as_fd(), &mut facts) }?;
    Ok(facts)
}

/// A map, and the beginning of `struct bpf_map_info`.
#[derive(Debug)]
pub(crate) struct KnownMap {
    pub(crate) map: Map,
    pub(crate) number: u32,
    pub(crate) kind: u32,
    pub(crate) value_bytes: usize,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    /// At most 15 bytes of it.
    pub(crate) name: String,
    /// Of a type of the kernel's own, for struct_ops.
    pub(crate) value_type: u32,
}

impl KnownMap {
    pub(crate) fn open(number: u32) -> io::Result<Option<Self>> {
        use std::os::fd::AsFd;
        let Some(fd) = open(ObjectKind::Map, number)? else { return Ok(None) };
        let mut facts = [0; 80];
        // SAFETY: the kernel reads no pointer from it.
        unsafe { ask(fd.as_fd(), &mut facts) }?;
        Ok(Some(Self {
            map: fd.into(),
            number,
            kind: word(&facts, 0),
            value_bytes: word(&facts, 12) as usize,
            entries: word(&facts, 16),
            flags: word(&facts, 20),
            name: text(&facts[24..40]),
            value_type: word(&facts, 44),
        }))
    }

    /// The value of number 0, in a map of numbers.
    pub(crate) fn first_value(&self) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_bytes];
        self.map.read(&0u32.to_ne_bytes(), &mut value)?;
        Ok(value)
    }

    /// Kernel memory that it takes, in bytes, as far as the kernel reports it.
    pub(crate) fn memory(&self) -> Option<u64> {
        use std::os::fd::AsFd;
        let path = format!("/proc/self/fdinfo/{}", self.map.as_fd().as_raw_fd());
        let facts = fs::read_to_string(path).ok()?;
        facts.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok())
    }
}

/// The maps that a program works with.
pub(crate) fn maps_of(program: u32) -> io::Result<Vec<KnownMap>> {
    use std::os::fd::AsFd;
    /// Ours have a handful; the verifier permits 64.
    const MOST: usize = 64;
    let Some(fd) = open(ObjectKind::Program, program)? else { return Ok(Vec::new()) };
    let mut numbers = [0u32; MOST];
    // `struct bpf_prog_info` until `map_ids`.
    let mut facts = [0; 64];
    facts[52..56].copy_from_slice(&(MOST as u32).to_ne_bytes());
    facts[56..64].copy_from_slice(&(numbers.as_mut_ptr() as u64).to_ne_bytes());
    // SAFETY: the only pointer is that to `numbers`, which has room for as many as stated.
    unsafe { ask(fd.as_fd(), &mut facts) }?;
    let count = (word(&facts, 52) as usize).min(MOST);
    numbers[..count].iter().filter_map(|number| KnownMap::open(*number).transpose()).collect()
}

/// The link that registers a struct_ops map.
pub(crate) fn link_of(map: u32) -> io::Result<Option<OwnedFd>> {
    use std::os::fd::AsFd;
    /// `BPF_LINK_TYPE_STRUCT_OPS`
    const STRUCT_OPS: u32 = 9;
    for number in all(ObjectKind::Link) {
        let Some(fd) = open(ObjectKind::Link, number?)? else { continue };
        let mut facts = [0; 64];
        // SAFETY: zeros ask for nothing to be written elsewhere.
        unsafe { ask(fd.as_fd(), &mut facts) }?;
        if word(&facts, 0) == STRUCT_OPS && word(&facts, 16) == map {
            return Ok(Some(fd));
        }
    }
    Ok(None)
}

/// Unregisters what a link registered, even if others hold it. From Linux 6.11.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut number =
        ObjectNumber { number: link.as_raw_fd().cast_unsigned(), ..ObjectNumber::default() };
    // SAFETY: the argument holds numbers only.
    unsafe { bpf(LINK_DETACH, &mut number) }.map(drop)
}

/// Callers know that it is there.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
