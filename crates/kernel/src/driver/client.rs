//! A process that controls sockets: no privilege but the right to open the pins.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::sockopt;

use super::layout::{
    CONTROL_BYTES, KernelRecord, NAME, RECORD_BYTES, RecordKind, SLOTS, SocketControl, owner_of,
};
use super::ring::RecordRing;
use super::shared_page::SharedPage;
use crate::KernelError;
use crate::host::bpf::Map;
use crate::host::pins::{open, pins};

/// Selects the congestion control `cellpace` for a TCP socket, connected or not, and informs the
/// cookie under which it is controlled. Until somebody controls it, it goes by RFC 5681.
///
/// # Errors
/// `NotFound` when the kernel driver is not installed.
pub fn select(socket: impl AsFd) -> io::Result<u64> {
    select_named(socket, NAME)
}

/// The same for a kernel driver that was installed under another name.
///
/// # Errors
/// As [`select`].
pub fn select_named(socket: impl AsFd, name: &str) -> io::Result<u64> {
    let cookie = sockopt::socket_cookie(&socket)?;
    sockopt::set_tcp_congestion(&socket, name)?;
    Ok(cookie)
}

/// Lets a socket send at once what its window, just grown by [`Kernel::control`], allows. Without,
/// it does so with its next acknowledgment or write, and a round trip may pass until then. Who has
/// no descriptor of the socket does without. A socket that its program has corked is left alone.
///
/// # Errors
/// When it is no TCP socket.
pub fn kick(socket: impl AsFd) -> io::Result<()> {
    // To take the cork from a socket that has none makes the kernel send what it may.
    if !sockopt::tcp_cork(&socket)? {
        sockopt::set_tcp_cork(&socket, false)?;
    }
    Ok(())
}

/// This process's place at the kernel driver: windows go in, records come out.
///
/// After a fork only one of the two processes may continue to use it.
#[derive(Debug)]
pub struct Kernel {
    name: String,
    shared: SharedPage,
    controls: Arc<Map>,
    ring: RecordRing,
    slot: usize,
    owner: u64,
    unreadable: u64,
}

/// Puts sockets under the control of a [`Kernel`], from any thread.
#[derive(Debug, Clone)]
pub struct NewControls {
    controls: Arc<Map>,
    slot: usize,
    owner: u64,
}

impl NewControls {
    /// Sets what a socket shall do that is not under control yet, as [`Kernel::control`] does.
    ///
    /// # Errors
    /// When the table is full; [`Kernel::control`] makes room first.
    pub fn begin(&self, cookie: u64, control: SocketControl) -> io::Result<()> {
        let value = control.encode(self.slot as u32, self.owner);
        self.controls.update(&cookie.to_ne_bytes(), &value)
    }
}

impl Kernel {
    /// Takes a slot of the kernel driver that is installed.
    ///
    /// # Errors
    /// [`KernelError`] says why there is none for us.
    pub fn open() -> Result<Self, KernelError> {
        Self::open_named(NAME)
    }

    /// The same for one that was installed under another name.
    ///
    /// # Errors
    /// As [`Kernel::open`].
    pub fn open_named(name: &str) -> Result<Self, KernelError> {
        let pins = pins(name);
        let shared = SharedPage::map(&open(&pins, "shared")?)?;
        if shared.is_removed() {
            return Err(KernelError::NotInstalled);
        }
        let controls = Arc::new(open(&pins, "controls")?);
        let (slot, owner) = shared.claim()?;
        let ring =
            ring(&pins, slot, shared.ring_bytes()).inspect_err(|_| shared.free(slot, owner))?;
        let kernel =
            Self { name: name.to_owned(), shared, controls, ring, slot, owner, unreadable: 0 };
        kernel.sweep();
        Ok(kernel)
    }

    /// The descriptor that is readable when records wait. For waiting only.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// What puts new sockets under our control, while this object lives.
    pub fn new_controls(&self) -> NewControls {
        NewControls { controls: self.controls.clone(), slot: self.slot, owner: self.owner }
    }

    /// Selects the congestion control for a TCP socket, as [`select()`] does.
    ///
    /// # Errors
    /// `NotFound` when the kernel driver has been removed.
    pub fn select(&self, socket: impl AsFd) -> io::Result<u64> {
        select_named(socket, &self.name)
    }

    /// Sets what a socket shall do. In effect with its next acknowledgment or write, or at once
    /// with [`kick`]. To be called again whenever the window changes.
    ///
    /// # Errors
    /// When too many sockets are under control.
    pub fn control(&self, cookie: u64, control: SocketControl) -> Result<(), KernelError> {
        let value = control.encode(self.slot as u32, self.owner);
        let update = || self.controls.update(&cookie.to_ne_bytes(), &value);
        let result = update().or_else(|error| {
            if error.raw_os_error() != Some(libc::E2BIG) {
                return Err(error);
            }
            self.sweep();
            update()
        });
        result.map_err(|error| match error.raw_os_error() {
            Some(libc::E2BIG) => KernelError::TooManySockets,
            _ => KernelError::System { doing: "setting a window", source: error },
        })
    }

    /// The same for a socket that a program in the kernel has put under our control. Returns false
    /// when it is not any more: it has closed, and its release may have been reported already.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn renew(&self, cookie: u64, control: SocketControl) -> Result<bool, KernelError> {
        let value = control.encode(self.slot as u32, self.owner);
        match self.controls.replace(&cookie.to_ne_bytes(), &value) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(source) => Err(KernelError::System { doing: "setting a window", source }),
        }
    }

    /// Controls a socket no more: it goes by RFC 5681, from what it has in flight. A socket that
    /// closes needs none of this, nor one that never was under control.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn release(&self, cookie: u64) -> Result<(), KernelError> {
        match self.controls.delete(&cookie.to_ne_bytes()) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(KernelError::System { doing: "releasing a socket", source: error })
            }
            _ => Ok(()),
        }
    }

    /// Says that we are alive. To be called at least every 250 ms: after a second without, all our
    /// sockets go by RFC 5681 until the next call. Costs no system call but reading the clock.
    ///
    /// # Errors
    /// [`KernelError::Removed`] and [`KernelError::SlotLost`]: this object is of no use any more.
    pub fn beat(&self) -> Result<(), KernelError> {
        self.shared.beat(self.slot, self.owner)
    }

    /// Says that we will look for records by ourselves at `time_ns` (CLOCK_MONOTONIC), and need not
    /// be woken for those before: to wake somebody costs the kernel more than all the rest. Whoever
    /// looks earlier, or later, misses nothing. Costs no system call.
    pub fn rest_until(&self, time_ns: u64) {
        self.shared.rest_until(self.slot, time_ns);
    }

    /// Hands out up to `most` records that wait, oldest first, and returns how many there were.
    pub fn drain(&mut self, most: usize, mut each: impl FnMut(KernelRecord)) -> usize {
        let Self { ring, unreadable, controls, .. } = self;
        ring.drain::<RECORD_BYTES>(most, |bytes| match KernelRecord::decode(bytes) {
            Some(record) => {
                if record.kind == RecordKind::Release {
                    // A control that came after the release would stay for ever.
                    let _ = controls.delete(&record.cookie.to_ne_bytes());
                }
                each(record);
            }
            None => *unreadable += 1,
        })
    }

    /// Records that were lost since the slot was taken, because nobody made room in time.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped(self.slot) + self.unreadable
    }

    /// The slot's number, for logs.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Names us in what programs in the kernel write into the table of controls.
    pub fn owner(&self) -> u64 {
        self.owner
    }

    /// Removes controls whose process is gone, and that no socket removed by closing.
    fn sweep(&self) {
        let mut next = self.controls.next_key(None).ok().flatten();
        while let Some(key) = next {
            next = self.controls.next_key(Some(&key)).ok().flatten();
            let Ok(control) = self.controls.lookup::<CONTROL_BYTES>(&key) else { continue };
            let (slot, owner) = owner_of(&control);
            let slot = slot as usize;
            if slot >= SLOTS || self.shared.owner(slot) != owner {
                let _ = self.controls.delete(&key);
            }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.shared.free(self.slot, self.owner);
    }
}

fn ring(pins: &Path, slot: usize, bytes: usize) -> Result<RecordRing, KernelError> {
    let map = open(pins, &format!("ring{slot:02}"))?;
    let mut ring =
        RecordRing::new(map, bytes).map_err(KernelError::system("mapping a ring buffer"))?;
    // What the slot's owner before did not read.
    ring.clear();
    Ok(ring)
}
