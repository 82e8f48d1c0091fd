//! TUN devices: the kernel's packets as reads and writes. A device lives as long as its file.

#![allow(unsafe_code, reason = "an ioctl")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::EmuError;

/// Why there is no device.
#[derive(Debug)]
pub(crate) enum TunError {
    /// `/dev/net/tun` cannot be opened.
    Open(io::Error),
    /// It does not make a device.
    Make(io::Error),
}

impl TunError {
    /// Whether privilege over the network is missing, which a user namespace gives.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Make(error) if is_denied(error))
    }
}

impl From<TunError> for EmuError {
    fn from(error: TunError) -> Self {
        match error {
            TunError::Open(source) if is_denied(&source) => Self::TunClosed { source },
            TunError::Open(source) => Self::NoTun { source },
            TunError::Make(source) if is_denied(&source) => Self::NotPermitted { source },
            TunError::Make(source) => Self::System { what: "making a TUN device", source },
        }
    }
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

/// A TUN device in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Makes a device called `name`, in which `%d` becomes the first number that is free.
    pub(crate) fn open(name: &str) -> Result<Self, TunError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open("/dev/net/tun").map_err(TunError::Open)?;
        let mut request = InterfaceRequest::new(name);
        // SAFETY: TUNSETIFF reads and writes an `ifreq`, which `Request` is laid out as, and the
        // descriptor is open for as long as `file` lives.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        if done < 0 {
            return Err(TunError::Make(io::Error::last_os_error()));
        }
        Ok(Self { file, name: request.name() })
    }

    /// The name it got.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads one packet; `None` when there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands one packet to the kernel. Returns whether it took it.
    pub(crate) fn write(&self, packet: &[u8]) -> bool {
        loop {
            match (&self.file).write(packet) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.is_ok(),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `struct ifreq` as TUNSETIFF wants it: a name, flags, and the rest of the union.
#[repr(C, align(8))]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

impl InterfaceRequest {
    fn new(name: &str) -> Self {
        let mut request = Self {
            name: [0; libc::IFNAMSIZ],
            flags: (libc::IFF_TUN | libc::IFF_NO_PI) as _,
            rest: [0; 22],
        };
        // The last byte stays zero.
        for (to, from) in request.name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        request
    }

    fn name(&self) -> String {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}

// The kernel copies a whole `ifreq`, however little of it TUNSETIFF uses.
const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());
