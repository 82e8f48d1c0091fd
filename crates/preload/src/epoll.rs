//! Which epoll sets a descriptor is in.
//!
//! A set holds the open file, not the number: when another file takes a registered number over,
//! the set goes on reporting the old one. So what is registered has to be registered again. What
//! is, the kernel reports (`/proc/thread-self/fdinfo`); which descriptors are sets is noted here, as
//! looking at all of a process' descriptors would take long where there are many.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_int, c_void, epoll_event};

use crate::config::config;
use crate::sys::{Fd, KeepErrno, errno, set_errno};

/// Sets of a process that are known; with more, nothing is known of any descriptor.
const MOST_SETS: usize = 64;
/// Registrations of one descriptor, at most.
const MOST_PLACES: usize = 8;

static SETS: [AtomicI32; MOST_SETS] = [const { AtomicI32::new(-1) }; MOST_SETS];
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// `epoll_create(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn epoll_create(size: c_int) -> c_int {
    // The size is a hint of old that must be positive; not every machine has the call of that time.
    if size <= 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    epoll_create1(0)
}

/// `epoll_create1(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: numbers only.
    noted(unsafe { libc::syscall(libc::SYS_epoll_create1, flags) as c_int })
}

/// `epoll_ctl(2)`. The set may be older than the program.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if operation == libc::EPOLL_CTL_ADD {
        noted(set);
    }
    // SAFETY: the kernel checks the pointer.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, fd, event) as c_int }
}

/// Remembers a set, where it can matter.
fn noted(set: c_int) -> c_int {
    let matters = config().is_some_and(|config| config.rules.covers(true));
    if set >= 0 && matters && !note(set) {
        TOO_MANY.store(true, Ordering::Relaxed);
    }
    set
}

fn note(set: c_int) -> bool {
    for place in &SETS {
        let known = place.load(Ordering::Acquire);
        if known == set {
            return true;
        }
        if known < 0 && exchange(place, -1, set) {
            return true;
        }
    }
    let _errno = KeepErrno::now();
    SETS.iter().any(|place| {
        let known = place.load(Ordering::Acquire);
        // Its number may also stand for something else by now, which is found out on reading.
        known == set || !is_open(known) && exchange(place, known, set)
    })
}

/// Returns whether the place holds `new` now, by us or by another thread.
fn exchange(place: &AtomicI32, old: c_int, new: c_int) -> bool {
    let result = place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
    result.is_ok() || result == Err(new)
}

fn is_open(fd: c_int) -> bool {
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) >= 0 }
}

/// Where a descriptor is registered, and for what.
#[derive(Clone, Copy, PartialEq, Debug)]
struct EpollRegistration {
    set: c_int,
    events: u32,
    data: u64,
}

/// All places where a descriptor is registered.
pub(crate) struct EpollRegistrations {
    fd: c_int,
    places: [Option<EpollRegistration>; MOST_PLACES],
}

impl EpollRegistrations {
    /// Finds them; `None` if that cannot be known.
    pub(crate) fn of(fd: c_int) -> Option<Self> {
        if TOO_MANY.load(Ordering::Relaxed) {
            return None;
        }
        let mut found = Self { fd, places: [None; MOST_PLACES] };
        let mut count = 0;
        let inode = inode(fd)?;
        for set in &SETS {
            let set = set.load(Ordering::Acquire);
            if set < 0 {
                break;
            }
            let Some(info) = open_info(set) else {
                if is_open(set) {
                    return None;
                }
                continue;
            };
            let mut overflow = false;
            each_line(&info, |line| {
                let Some((number, entry, there)) = parse(line) else { return };
                if number != fd || there.is_some_and(|there| there != inode) {
                    return;
                }
                match found.places.get_mut(count) {
                    Some(place) => *place = Some(EpollRegistration { set, ..entry }),
                    None => overflow = true,
                }
                count += 1;
            })?;
            if overflow {
                return None;
            }
        }
        Some(found)
    }

    /// Takes the descriptor out everywhere.
    pub(crate) fn remove(&self) {
        self.each(libc::EPOLL_CTL_DEL);
    }

    /// Puts whatever the descriptor stands for now where it was.
    pub(crate) fn add(&self) {
        self.each(libc::EPOLL_CTL_ADD);
    }

    fn each(&self, operation: c_int) {
        for place in self.places.iter().flatten() {
            let mut event = epoll_event { events: place.events, u64: place.data };
            let (set, event) = (place.set, &raw mut event);
            // SAFETY: the kernel reads the event.
            unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, self.fd, event) };
        }
    }
}

fn inode(fd: c_int) -> Option<u64> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes what there is room for. The C library's call makes a system call.
    let result = unsafe { libc::fstat(fd, status.as_mut_ptr()) };
    // SAFETY: any bytes are valid, and all were set to zero at first.
    let status = unsafe { status.assume_init() };
    (result == 0).then_some(status.st_ino)
}

/// Opens what the kernel reports of a descriptor.
fn open_info(fd: c_int) -> Option<Fd> {
    const FOLDER: &[u8] = b"/proc/thread-self/fdinfo/";
    let mut path = [0_u8; FOLDER.len() + 12];
    path[..FOLDER.len()].copy_from_slice(FOLDER);
    let mut digits = [0_u8; 10];
    let (mut rest, mut len) = (fd.cast_unsigned(), 0);
    while len == 0 || rest > 0 {
        digits[len] = b'0' + (rest % 10) as u8;
        (rest, len) = (rest / 10, len + 1);
    }
    for (to, from) in path[FOLDER.len()..].iter_mut().zip(digits[..len].iter().rev()) {
        *to = *from;
    }
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    Fd::from_result(opened)
}

/// Gives each line to `take`; `None` if not all can be read.
fn each_line(file: &Fd, mut take: impl FnMut(&[u8])) -> Option<()> {
    let mut buffer = [0_u8; 2048];
    let mut filled = 0;
    loop {
        let room = &mut buffer[filled..];
        let (place, len) = (room.as_mut_ptr().cast::<c_void>(), room.len());
        // SAFETY: the kernel writes at most `len` bytes there.
        let count = unsafe { libc::syscall(libc::SYS_read, file.raw(), place, len) };
        if count < 0 && errno() == libc::EINTR {
            continue;
        }
        let count = usize::try_from(count).ok()?;
        if count == 0 {
            return Some(());
        }
        filled += count;
        let mut start = 0;
        while let Some(end) = buffer[start..filled].iter().position(|byte| *byte == b'\n') {
            take(&buffer[start..start + end]);
            start += end + 1;
        }
        if start == 0 && filled == buffer.len() {
            return None;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}

/// Reads `tfd: 5 events: 1d data: 7f pos:0 ino:5e2 sdev:9`, proc(5): descriptor, registration,
/// and, since Linux 5.0, the file's inode.
fn parse(line: &[u8]) -> Option<(c_int, EpollRegistration, Option<u64>)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let mut after = |name: &str| (words.next()? == name).then(|| words.next()).flatten();
    let fd = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    let data = u64::from_str_radix(after("data:")?, 16).ok()?;
    let inode = words.find_map(|word| word.strip_prefix("ino:"));
    let inode = inode.and_then(|inode| u64::from_str_radix(inode, 16).ok());
    Some((fd, EpollRegistration { set: -1, events, data }, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_read_as_the_kernel_writes_them() {
        let line = b"tfd:        5 events: 8000201d data: ffffffff00000007  pos:0 ino:5e2 sdev:9";
        let place = EpollRegistration { set: -1, events: 0x8000_201d, data: 0xffff_ffff_0000_0007 };
        assert_eq!(parse(line), Some((5, place, Some(0x5e2))));
        let old = b"tfd:       12 events:        1 data:                c";
        let place = EpollRegistration { set: -1, events: 1, data: 12 };
        assert_eq!(parse(old), Some((12, place, None)));
        for other in [b"pos:\t0".as_slice(), b"flags:\t02", b"tfd: x events: 1 data: 1", b""] {
            assert_eq!(parse(other), None);
        }
    }

    #[test]
    fn what_is_registered_can_be_moved_to_another_file() {
        let [one, other] = [(); 2].map(|()| std::os::unix::net::UnixStream::pair().unwrap());
        let fd = std::os::fd::AsRawFd::as_raw_fd(&one.0);
        let set = epoll_create1(libc::EPOLL_CLOEXEC);
        assert!(note(set));
        for number in 1000..1000 + 2 * MOST_SETS as c_int {
            // Those that are closed make room.
            assert!(note(number));
        }
        assert!(note(set));
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 77 << 40 };
        // SAFETY: the event is valid.
        assert_eq!(unsafe { epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) }, 0);
        let places = EpollRegistrations::of(fd).unwrap();
        let place = EpollRegistration { set, events: libc::EPOLLIN as u32 | 0x18, data: 77 << 40 };
        assert_eq!(places.places[..2], [Some(place), None]);
        places.remove();
        // The first file lives on, as that of a connection does in the launcher.
        let kept = one.0.try_clone().unwrap();
        // SAFETY: both are ours.
        assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&other.0), fd) }, fd);
        places.add();
        let mut got = [epoll_event { events: 0, u64: 0 }; 4];
        let mut wait = || {
            // SAFETY: there is room for four events.
            unsafe { libc::epoll_wait(set, got.as_mut_ptr(), 4, 0) }
        };
        std::io::Write::write_all(&mut &one.1, b"x").unwrap();
        assert_eq!(wait(), 0, "the old file is still reported");
        std::io::Write::write_all(&mut &other.1, b"x").unwrap();
        assert_eq!(wait(), 1);
        assert_eq!({ got[0].u64 }, 77 << 40);
        drop(kept);
        // SAFETY: it is ours.
        unsafe { libc::close(set) };
    }
}
