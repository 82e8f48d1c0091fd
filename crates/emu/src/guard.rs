//! A process that outlives us by a moment: when we are gone, however that came, it ends what
//! still runs inside.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, setsid};

use crate::EmuError;
use crate::{namespace, rests};

/// The guardian, seen from us: it acts when the pipe closes.
pub(crate) struct Guard {
    pipe: Option<OwnedFd>,
    process: Pid,
}

/// The guardian's name among the processes.
pub(crate) const NAME: &CStr = c"cellpace-guard";

/// How often processes are looked for before those that are left are left alone.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Guard {
    /// Starts the guardian of a namespace. The caller must be the only thread of this process.
    pub(crate) fn start(inside: &File) -> Result<Self, EmuError> {
        let (read_end, write_end) =
            pipe2(OFlag::O_CLOEXEC).map_err(EmuError::system("making a pipe"))?;
        let link = rests::own_name();
        // SAFETY: there is one thread, so the child may do whatever the parent may.
        match unsafe { fork() }.map_err(EmuError::system("starting the guardian"))? {
            ForkResult::Parent { child } => Ok(Self { pipe: Some(write_end), process: child }),
            ForkResult::Child => {
                drop(write_end);
                watch(&read_end, inside, &link);
                // SAFETY: ends this process without the parent's clean-up, which is the parent's.
                unsafe { libc::_exit(0) }
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It ends by itself; there is nothing to learn from how.
        let _ = waitpid(self.process, None);
    }
}

/// The guardian's life.
fn watch(pipe: &OwnedFd, inside: &File, link: &str) {
    // Ctrl-C and whatever else is meant for the group is not meant for it.
    let _ = setsid();
    let _ = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), None);
    let _ = nix::sys::prctl::set_name(NAME);
    let Ok(number) = namespace::number(inside) else { return };
    // Inside the namespace that it guards it is safe from the guardian of a link around this one.
    if namespace::enter(inside).is_err() {
        return;
    }
    close_all_but(pipe.as_raw_fd());
    // Nothing is ever written; the end comes when the last writer is gone.
    while matches!(read(pipe, &mut [0]), Err(nix::errno::Errno::EINTR)) {}
    kill_all_but(number, std::process::id() as i32);
    // What ran on the far side is in a namespace that is not ours to empty, but has our name.
    rests::end_programs(|name| name == link);
}

/// Closes the devices, whose lives must not depend on the guardian, and the standard streams, on
/// whose end others wait.
fn close_all_but(kept: i32) {
    let kept = kept as libc::c_uint;
    let ranges = [(0, kept.checked_sub(1)), (kept + 1, Some(libc::c_uint::MAX))];
    for (first, last) in ranges {
        if let Some(last) = last {
            // SAFETY: the guardian uses no descriptor but `kept` from here on, and opens its own.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Ends every process in a namespace but its guardian, which ends by itself.
pub(crate) fn kill_all(number: u64, guard: &Guard) {
    kill_all_but(number, guard.process.as_raw());
}

/// Sends a signal to every process in a namespace but its guardian. Returns whether there was any.
pub(crate) fn signal_all(number: u64, guard: &Guard, signal: Signal) -> bool {
    signal_all_but(number, guard.process.as_raw(), signal)
}

fn kill_all_but(number: u64, spared: i32) {
    for _ in 0..ROUNDS {
        if !signal_all_but(number, spared, Signal::SIGKILL) {
            return;
        }
        sleep(PAUSE);
    }
}

fn signal_all_but(number: u64, spared: i32, signal: Signal) -> bool {
    processes()
        .filter(|process| *process != spared && namespace::number_of(*process) == Some(number))
        .filter(|process| kill(Pid::from_raw(*process), signal).is_ok())
        .count()
        > 0
}

/// All processes that are to be seen.
pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
