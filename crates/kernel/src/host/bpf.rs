//! bpf(2) and mapped memory, so that a program that only controls sockets carries no libbpf.

#![allow(unsafe_code, reason = "bpf(2) and shared memory, without libbpf in each program")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const MAP_GET_NEXT_KEY: libc::c_long = 4;
#[cfg(feature = "install")]
const OBJ_PIN: libc::c_long = 6;
const OBJ_GET: libc::c_long = 7;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
#[cfg(feature = "install")]
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;
/// Attach type: BPF_TCX_EGRESS.
#[cfg(feature = "install")]
const TCX_EGRESS: u32 = 47;
/// Type of a link in what the kernel reports of it: BPF_LINK_TYPE_TCX.
const LINK_TYPE_TCX: u32 = 11;
/// Flag of an update: BPF_EXIST.
const EXIST: u64 = 2;

/// Argument of the commands about elements of maps.
#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    /// The value, or the next key.
    value: u64,
    flags: u64,
}

/// Argument of the commands about pins.
#[repr(C)]
#[derive(Default)]
struct Pin {
    path: u64,
    fd: u32,
    flags: u32,
}

/// Argument of the command that returns facts about an object.
#[repr(C)]
struct Info {
    fd: u32,
    length: u32,
    info: u64,
}

/// The beginning of what is returned of a link, and what follows for one of TCX.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    /// 0: the device is gone.
    interface: u32,
    attach_type: u32,
}

/// Argument of the command that attaches a program to a device.
#[cfg(feature = "install")]
#[repr(C)]
#[derive(Default)]
struct NewLink {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// A pinned map.
#[derive(Debug)]
pub(crate) struct Map(OwnedFd);

impl Map {
    /// Opens a pin for reading and writing.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        open_pin(path).map(Self)
    }

    pub(crate) fn lookup<const N: usize>(&self, key: &[u8]) -> io::Result<[u8; N]> {
        let mut value = [0u8; N];
        let mut element = self.element(key, value.as_mut_ptr() as u64);
        // SAFETY: callers give keys and values of the map's sizes, and both outlive the call.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut element) }?;
        Ok(value)
    }

    /// The same for a size that is known at run time only: that of `value`.
    pub(crate) fn read(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        let mut element = self.element(key, value.as_mut_ptr() as u64);
        // SAFETY: callers give keys and values of the map's sizes, and both outlive the call.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut element) }.map(drop)
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut element = self.element(key, value.as_ptr() as u64);
        // SAFETY: callers give keys and values of the map's sizes, and both outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut element) }.map(drop)
    }

    /// The same where there is a value already; else `NotFound`.
    pub(crate) fn replace(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut element = Element { flags: EXIST, ..self.element(key, value.as_ptr() as u64) };
        // SAFETY: callers give keys and values of the map's sizes, and both outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut element) }.map(drop)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        let mut element = self.element(key, 0);
        // SAFETY: callers give keys of the map's size, which outlive the call.
        unsafe { bpf(MAP_DELETE_ELEM, &mut element) }.map(drop)
    }

    /// The key after this one, or the first.
    pub(crate) fn next_key(&self, key: Option<&[u8; 8]>) -> io::Result<Option<[u8; 8]>> {
        let mut next = [0u8; 8];
        let mut element = self.element(&[], next.as_mut_ptr() as u64);
        element.key = key.map_or(0, |key| key.as_ptr() as u64);
        // SAFETY: only maps with keys of eight bytes come here; both keys outlive the call.
        match unsafe { bpf(MAP_GET_NEXT_KEY, &mut element) } {
            Ok(_) => Ok(Some(next)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn element(&self, key: &[u8], value: u64) -> Element {
        let map = self.0.as_raw_fd().cast_unsigned();
        Element { map, key: key.as_ptr() as u64, value, ..Element::default() }
    }
}

impl From<OwnedFd> for Map {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut pin = Pin { path: path.as_ptr() as u64, ..Pin::default() };
    // SAFETY: the kernel reads the path, which ends in a NUL and lives until after the call.
    let fd = unsafe { bpf(OBJ_GET, &mut pin) }?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A program that is attached to a device. Detached when it is closed and not pinned.
#[derive(Debug)]
pub(crate) struct TcxLink(OwnedFd);

impl TcxLink {
    /// Opens a pin. One of something else than a link is refused by the other functions.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        open_pin(path).map(Self)
    }

    /// Attaches a program for TCX to what leaves by the device with this number.
    #[cfg(feature = "install")]
    pub(crate) fn to_egress(program: BorrowedFd<'_>, interface: u32) -> io::Result<Self> {
        let program = program.as_raw_fd().cast_unsigned();
        let mut link = NewLink { program, interface, attach_type: TCX_EGRESS, flags: 0 };
        // SAFETY: the argument holds no pointers.
        let fd = unsafe { bpf(LINK_CREATE, &mut link) }?;
        // SAFETY: the kernel has just made this descriptor for us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    #[cfg(feature = "install")]
    pub(crate) fn pin(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let fd = self.0.as_raw_fd().cast_unsigned();
        let mut pin = Pin { path: path.as_ptr() as u64, fd, ..Pin::default() };
        // SAFETY: the kernel reads the path, which ends in a NUL and lives until after the call.
        unsafe { bpf(OBJ_PIN, &mut pin) }.map(drop)
    }

    /// Whether the device is still there.
    pub(crate) fn is_attached(&self) -> io::Result<bool> {
        let mut link = LinkInfo::default();
        let mut info = Info {
            fd: self.0.as_raw_fd().cast_unsigned(),
            length: size_of::<LinkInfo>() as u32,
            info: (&raw mut link) as u64,
        };
        // SAFETY: the kernel writes at most `length` bytes into `link`, which outlives the call, and
        // then sets `length`, which is ours alone.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut info) }?;
        if link.kind != LINK_TYPE_TCX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(link.interface != 0)
    }

    /// At once, also where others have it open.
    pub(crate) fn detach(&self) -> io::Result<()> {
        let mut fd = self.0.as_raw_fd().cast_unsigned();
        // SAFETY: the argument holds no pointers.
        unsafe { bpf(LINK_DETACH, &mut fd) }.map(drop)
    }
}

/// Some commands write into the argument itself: the next number, or a length.
///
/// # Safety
/// What the argument points to must be as the command wants it, and every value that the kernel may
/// write into the argument must be one of `T`: all of them are made of plain integers.
pub(crate) unsafe fn bpf<T>(command: libc::c_long, argument: &mut T) -> io::Result<RawFd> {
    // SAFETY: the argument is as long as stated, and nothing else refers to it while the kernel reads
    // and writes it; everything else is the caller's promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(argument), size_of::<T>())
    };
    match RawFd::try_from(result) {
        Ok(fd) if fd >= 0 => Ok(fd),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory that is shared with the kernel and other processes. It changes at any time, so it is
/// looked at through atomics only.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: the memory belongs to no thread, and all access to it is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        write: bool,
    ) -> io::Result<Self> {
        let length = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        // SAFETY: the kernel chooses the place, so nothing of ours is overwritten.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length.get(),
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Panics outside the mapping: callers know their offsets.
    pub(crate) fn u64(&self, at: usize) -> &AtomicU64 {
        let place = self.place(at, size_of::<AtomicU64>());
        // SAFETY: inside the mapping and aligned; the memory lives as long as `self`.
        unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) }
    }

    pub(crate) fn u32(&self, at: usize) -> &AtomicU32 {
        let place = self.place(at, size_of::<AtomicU32>());
        // SAFETY: inside the mapping and aligned; the memory lives as long as `self`.
        unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) }
    }

    fn u8(&self, at: usize) -> &AtomicU8 {
        let place = self.place(at, size_of::<AtomicU8>());
        // SAFETY: inside the mapping; the memory lives as long as `self`.
        unsafe { AtomicU8::from_ptr(place.as_ptr()) }
    }

    /// Copies from a multiple of 8. Others may write meanwhile: every eight bytes, and every byte
    /// after the last eight, come out old or new.
    pub(crate) fn copy(&self, at: usize, into: &mut [u8]) {
        let (words, bytes) = into.as_chunks_mut::<8>();
        let after_words = at + 8 * words.len();
        for (number, word) in words.iter_mut().enumerate() {
            *word = self.u64(at + 8 * number).load(Ordering::Relaxed).to_ne_bytes();
        }
        for (number, byte) in bytes.iter_mut().enumerate() {
            *byte = self.u8(after_words + number).load(Ordering::Relaxed);
        }
    }

    fn place(&self, at: usize, size: usize) -> NonNull<u8> {
        let end = at.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.length.get()), "outside of the mapping");
        assert!(at.is_multiple_of(size), "not aligned");
        // SAFETY: inside the mapping, as just seen.
        unsafe { self.start.add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and nobody can refer to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length.get()) };
    }
}

/// Takes the lock of an open file or folder, which lasts until that is closed. Waits for at most
/// half a minute.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(10);
    const TRIES: u32 = 3_000;
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(PAUSE),
            result => return result,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process has had the lock for half a minute",
    ))
}

/// Whether somebody has the lock of an open file or folder. Keeps others from it until that is
/// closed, if not.
pub(crate) fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_copied_from_shared_memory() {
        let bytes: Vec<u8> = (0..=255).collect();
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, bytes.len(), false).unwrap();
        for (at, length) in [(0, 0), (0, 3), (8, 8), (16, 32), (24, 103), (152, 104), (248, 8)] {
            let mut copied = vec![0; length];
            mapping.copy(at, &mut copied);
            assert_eq!(copied, bytes[at..at + length], "{at} {length}");
        }
    }

    #[test]
    #[should_panic(expected = "outside of the mapping")]
    fn nothing_is_copied_from_outside() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, 64, false).unwrap();
        mapping.copy(56, &mut [0; 9]);
    }

    #[test]
    fn a_lock_is_seen_by_others_until_the_file_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || File::open(folder.path()).unwrap();
        let locked = open();
        lock(&locked).unwrap();
        assert!(is_locked(&open()));
        drop(locked);
        assert!(!is_locked(&open()));
    }
}
