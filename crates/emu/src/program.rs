//! The program inside.

#![allow(unsafe_code, reason = "what runs between fork and exec")]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use cellpace_os::process;
use cellpace_os::signals::Signals;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

use crate::{EmuError, namespace};

/// Time that the program gets to end by itself when its limit is over.
const GRACE: Duration = Duration::from_secs(2);

/// How long the program inside waits for one on the far side that may fail at once.
const FAR_START: Duration = Duration::from_millis(100);

/// Signals that are meant for the program.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Catches the signals that are meant for the program. To be called before any thread is made.
pub(crate) fn catch_signals() -> Result<Signals, EmuError> {
    let caught = Signals::catch(&PASSED_ON).map(|(signals, _)| signals);
    caught.map_err(EmuError::system("catching signals"))
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
            namespace::keep_privilege()?;
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
#[derive(Debug)]
pub struct FarProgram {
    child: Child,
    /// As written.
    program: String,
}

impl FarProgram {
    /// Starts a program where the calling thread is, in a process group of its own.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(command: Command, environment: &[(String, String)]) -> Result<Self, EmuError> {
        let last = command.get_args().last().unwrap_or_else(|| command.get_program());
        let program = last.to_string_lossy().into_owned();
        Ok(Self { child: start(command, environment, None, false)?, program })
    }

    /// Returns the exit code once it has ended; 128 and the signal's number if a signal ended it.
    pub fn ended(&mut self) -> Option<u8> {
        self.child.try_wait().ok().flatten().map(process::exit_code)
    }

    /// Waits a moment for a program that fails at once.
    ///
    /// # Errors
    /// When it does.
    pub(crate) fn check(&mut self) -> Result<(), EmuError> {
        let asked = Instant::now();
        while asked.elapsed() < FAR_START {
            match self.ended() {
                Some(0) => return Ok(()),
                Some(code) => {
                    return Err(EmuError::FarEnded { program: self.program.clone(), code });
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(())
    }
}

impl Drop for FarProgram {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id() as i32);
        // It may have ended by itself.
        let _ = killpg(group, Signal::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Waits for the program's end; passes signals on to `all` that runs inside, and ends it when
/// `limit` is over. Also returns whether a signal asked us to end.
pub(crate) fn wait(
    child: &mut Child,
    signals: &Signals,
    limit: Option<Duration>,
    all: &dyn Fn(Signal),
) -> Result<(ExitStatus, bool), EmuError> {
    let started = Instant::now();
    let mut next = limit.map(|limit| (limit, Signal::SIGTERM));
    let mut asked_to_end = false;
    loop {
        if let Some(status) = child.try_wait().map_err(EmuError::system("waiting"))? {
            return Ok((status, asked_to_end));
        }
        let left = next.map(|(at, _)| at.saturating_sub(started.elapsed()));
        if let Some((at, signal)) = next
            && left == Some(Duration::ZERO)
        {
            all(signal);
            next = (signal == Signal::SIGTERM).then_some((at + GRACE, Signal::SIGKILL));
            continue;
        }
        let caught = signals.next(left).map_err(EmuError::system("waiting for signals"))?;
        let Some(caught) = caught.filter(|caught| caught.signal != Signal::SIGCHLD) else {
            continue;
        };
        // The terminal has sent it to all that runs inside already.
        if !caught.from_terminal {
            all(caught.signal);
        }
        asked_to_end |= caught.is_end();
    }
}
