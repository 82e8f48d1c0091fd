//! The program inside.

#![allow(unsafe_code, reason = "what runs between fork and exec, and capabilities")]

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{Pid, getpid, getppid};
use std::os::fd::AsFd;

use crate::{EmuError, namespace};

/// How long the program has to end itself when its time is up.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that are meant for the program, and the one that tells of its end.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals as events. Made before any thread is, so that none of them takes a signal.
pub(crate) struct Signals(SignalFd);

impl Signals {
    pub(crate) fn catch() -> Result<Self, EmuError> {
        let mut set = SigSet::empty();
        PASSED_ON.iter().chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
        let caught = || {
            set.thread_block()?;
            SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        };
        caught().map(Self).map_err(EmuError::system("catching signals"))
    }

    fn wait(&self, timeout: Option<Duration>) -> nix::Result<Option<siginfo>> {
        let timeout = timeout.map_or(PollTimeout::NONE, |wait| {
            // Rounded up, so that time is really over after it.
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => self.0.read_signal(),
            Err(error) => Err(error),
        }
    }
}

/// Starts a command inside a namespace.
pub(crate) fn start(
    mut command: Command,
    environment: &[(String, String)],
    inside: Option<&File>,
    rootless: bool,
) -> Result<Child, EmuError> {
    let program = command.get_program().to_owned();
    command.envs(environment.iter().cloned());
    start_command(command, inside, rootless).map_err(|source| EmuError::Start { program, source })
}

fn start_command(mut command: Command, inside: Option<&File>, rootless: bool) -> io::Result<Child> {
    if inside.is_none() {
        // A group of its own, to end it as a whole.
        command.process_group(0);
    }
    let inside = inside.map(File::try_clone).transpose()?;
    let parent = getpid();
    let prepare = move || {
        if let Some(inside) = &inside {
            namespace::enter(inside)?;
        }
        if rootless {
            keep_privilege()?;
        }
        SigSet::empty().thread_set_mask()?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // We may have died before the line above.
        if getppid() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec the closure makes system calls only, on what it owns; it
    // allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// A program on the far side, and whatever it starts; all of it ends with this.
pub(crate) struct Beside(Child);

/// Runs a program on the far side, where the calling thread is.
pub(crate) fn start_beside(
    command: Command,
    environment: &[(String, String)],
) -> Result<Beside, EmuError> {
    start(command, environment, None, false).map(Beside)
}

impl Drop for Beside {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id() as i32);
        // It may have ended by itself.
        let _ = killpg(group, Signal::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// In a user namespace of our own, leaves the program the privilege over its networks across the
/// exec, although it is not root: ping works, and so do links inside.
fn keep_privilege() -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    const KEPT: [u32; 4] = [
        10, // CAP_NET_BIND_SERVICE
        12, // CAP_NET_ADMIN
        13, // CAP_NET_RAW
        21, // CAP_SYS_ADMIN
    ];
    let header: [u32; 2] = [VERSION_3, 0];
    // Effective, permitted, inheritable; the first 32 capabilities, then the rest.
    let mut sets = [0_u32; 6];
    // SAFETY: capget writes two sets of three words, which `sets` has room for.
    if unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for capability in KEPT {
        sets[2] |= 1 << capability;
    }
    // SAFETY: capset reads the same two sets.
    if unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for capability in KEPT {
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        // SAFETY: a request of numbers only.
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, libc::c_ulong::from(capability), 0, 0) };
    }
    Ok(())
}

/// Waits for the program's end; passes signals on to `all` that runs inside, and ends it when
/// `limit` is over. Returns whether we were told to end, too.
pub(crate) fn wait(
    child: &mut Child,
    signals: &Signals,
    limit: Option<Duration>,
    all: &dyn Fn(Signal),
) -> Result<(ExitStatus, bool), EmuError> {
    let started = Instant::now();
    let mut next = limit.map(|limit| (limit, Signal::SIGTERM));
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait().map_err(EmuError::system("waiting"))? {
            return Ok((status, told));
        }
        let left = next.map(|(at, _)| at.saturating_sub(started.elapsed()));
        if let Some((at, signal)) = next
            && left == Some(Duration::ZERO)
        {
            all(signal);
            next = (signal == Signal::SIGTERM).then_some((at + GRACE, Signal::SIGKILL));
            continue;
        }
        let Some(signal) = signals.wait(left).map_err(EmuError::system("waiting for signals"))?
        else {
            continue;
        };
        told |= pass_on(&signal, all);
    }
}

/// Passes a signal on to all that runs inside, as the terminal would, unless it was the terminal
/// and did so already. Returns whether it is one that ends us.
fn pass_on(signal: &siginfo, all: &dyn Fn(Signal)) -> bool {
    let Ok(number) = Signal::try_from(signal.ssi_signo as i32) else { return false };
    if number == Signal::SIGCHLD {
        return false;
    }
    let from_terminal = signal.ssi_code == libc::SI_KERNEL;
    if !from_terminal {
        all(number);
    }
    !matches!(number, Signal::SIGUSR1 | Signal::SIGUSR2)
}

/// The exit code as a shell would tell it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let status = |text: &str| Command::new("sh").args(["-c", text]).status().unwrap();
        assert_eq!(exit_code(status("exit 7")), 7);
        assert_eq!(exit_code(status("kill -9 $$")), 137);
        assert_eq!(exit_code(status("kill -TERM $$")), 143);
    }
}
