//! A process that outlives us by a moment: when we are gone, however that came, it ends what
//! still runs inside.

#![allow(unsafe_code, reason = "fork")]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use cellpace_os::process;
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

/// How often processes are looked for before those that are left are left alone.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Guard {
    /// Starts the guardian of a namespace. Fails if there are other threads in this process.
    pub(crate) fn start(inside: &File) -> Result<Self, EmuError> {
        check_only_thread().map_err(EmuError::system("starting the guardian"))?;
        let (read_end, write_end) =
            pipe2(OFlag::O_CLOEXEC).map_err(EmuError::system("making a pipe"))?;
        let link = rests::own_name();
        // SAFETY: this is the only thread, as just checked, and only a thread can start another. So
        // no lock is held by a thread that the child does not have, and it may do whatever the parent
        // may.
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

fn check_only_thread() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    match status.lines().find_map(|line| line.strip_prefix("Threads:")).map(str::trim) {
        Some("1") => Ok(()),
        threads => {
            let threads = threads.unwrap_or("an unknown number of");
            Err(io::Error::other(format!(
                "this process has {threads} threads and may have one only"
            )))
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
    let _ = nix::sys::prctl::set_name(rests::GUARD);
    let Ok(number) = namespace::number(inside) else { return };
    let Ok(outside) = namespace::current() else { return };
    // Inside the namespace that it guards it is safe from the guardian of a link around this one.
    if namespace::enter(inside).is_err() {
        return;
    }
    close_all_but([pipe.as_raw_fd(), outside.as_raw_fd()]);
    // Nothing is ever written; the end comes when the last writer is gone.
    while matches!(read(pipe, &mut [0]), Err(nix::errno::Errno::EINTR)) {}
    kill_all_but(number, std::process::id() as i32);
    // What ran on the far side is in a namespace that is not ours to empty, but has our name.
    rests::end_programs(|_, name| name == link);
    if namespace::enter(&outside).is_ok() {
        rests::put_back_of(link);
    }
}

/// Closes the devices, whose lives must not depend on the guardian, and the standard streams, on
/// whose end others wait.
fn close_all_but(kept: [i32; 2]) {
    let mut kept = kept.map(i32::cast_unsigned);
    kept.sort_unstable();
    let [low, high] = kept;
    for range in [0..low, low + 1..high, high + 1..libc::c_uint::MAX] {
        if !range.is_empty() {
            // SAFETY: the guardian uses no descriptor but those kept from here on, and opens its own.
            unsafe { libc::syscall(libc::SYS_close_range, range.start, range.end - 1, 0) };
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
    process::all()
        .filter(|process| *process != spared && namespace::number_of(*process) == Some(number))
        .filter(|process| kill(Pid::from_raw(*process), signal).is_ok())
        .count()
        > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // Tests run in threads of their own.
        let inside = namespace::current().unwrap();
        let error = Guard::start(&inside).map(drop).unwrap_err();
        assert!(error.to_string().contains("threads and may have one only"), "{error}");
    }
}
