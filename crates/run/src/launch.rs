//! The program's life: starting it, passing signals on, and waiting for it and all it started.

#![allow(unsafe_code, reason = "what runs between fork and exec")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use cellpace_control::{Rules, variables};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Broker, Library, RunError};

/// Signals that are meant for the program.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// The launcher's own process, prepared: signals come as events, and descriptors are plenty.
#[derive(Debug)]
pub struct Launch {
    signals: SignalFd,
    /// What the program shall find as it would without us.
    mask: SigSet,
    files: Rlimit,
}

impl Launch {
    /// Prepares this process. To be called before there are other threads, which would take the
    /// signals otherwise.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn prepare() -> Result<Self, RunError> {
        let mut set = SigSet::empty();
        PASSED_ON.iter().chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
        // Who ignores it, perhaps since its own parent did, never learns how children ended.
        // SAFETY: sets no handler.
        let default = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
        let prepare = || {
            default?;
            let mask = SigSet::thread_get_mask()?;
            set.thread_block()?;
            let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
            // Descendants whose parents end become our children, so that we know when all ended.
            nix::sys::prctl::set_child_subreaper(true)?;
            Ok::<_, Errno>((SignalFd::with_flags(&set, flags)?, mask))
        };
        let (signals, mask) = prepare().map_err(RunError::system("catching signals"))?;
        Ok(Self { signals, mask, files: raise_files() })
    }

    /// Starts the program with the library preloaded.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        self,
        program: &[OsString],
        library: &Library,
        broker: &Broker,
        rules: &Rules,
    ) -> Result<Running, RunError> {
        const PRELOAD: &str = "LD_PRELOAD";
        let name = program.first().map_or(OsStr::new(""), |name| name);
        let mut command = Command::new(name);
        command.args(program.iter().skip(1));
        command.env(PRELOAD, library.preload(std::env::var_os(PRELOAD).as_deref()));
        command.env(variables::CONTROL, variables::control_text(broker.name(), broker.workers()));
        command.env(variables::TOKEN, variables::token_text(broker.token()));
        command.env(variables::RULES, rules.to_string());
        let Self { mask, files, .. } = self;
        let restore = move || {
            mask.thread_set_mask()?;
            setrlimit(Resource::Nofile, files)?;
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes two system calls and nothing else.
        unsafe { command.pre_exec(restore) };
        let child = command.spawn().map_err(|source| RunError::Start {
            program: name.to_string_lossy().into_owned(),
            source,
        })?;
        let process = Pid::from_raw(child.id().cast_signed());
        Ok(Running { signals: self.signals, process, code: None })
    }
}

/// Each flow needs two descriptors here: as many as may be. Returns what was.
fn raise_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<u64> = most.and_then(|text| text.trim().parse().ok());
    let wanted = most.map_or(before.maximum, |most| before.maximum.map(|have| have.max(most)));
    let above = Rlimit { current: wanted, maximum: wanted };
    // Above the hard limit only with privilege; then up to it.
    if setrlimit(Resource::Nofile, above).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    }
    before
}

/// How long a look at the flows takes at most.
const LOOK: Duration = Duration::from_millis(5);

/// The program, and whatever it starts.
#[derive(Debug)]
pub struct Running {
    signals: SignalFd,
    process: Pid,
    /// Set when the program has ended.
    code: Option<u8>,
}

/// How it all ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// The program's exit code, 128 and the number for a signal.
    pub code: u8,
    /// Flows that were cut because they took too long.
    pub cut: usize,
}

impl Running {
    /// Waits until the program and all that it left behind have ended, then until the flows have,
    /// for as long as `drain` at most; a signal meanwhile cuts that short.
    ///
    /// # Errors
    /// When the system does not let us wait.
    pub fn wait(mut self, broker: &Broker, drain: Duration) -> Result<Finish, RunError> {
        while !self.reap()? {
            if let Some(signal) = self.signal(None)? {
                self.pass_on(signal);
            }
        }
        let until = Instant::now() + drain;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Flows' ends come by another way than signals.
            let cut = broker.wait(left.clamp(LOOK, 4 * LOOK));
            let told = matches!(self.signal(Some(Duration::ZERO))?, Some(signal) if is_end(signal));
            if cut == 0 || left.is_zero() || told {
                return Ok(Finish { code: self.code.unwrap_or(1), cut });
            }
        }
    }

    /// Learns which children have ended; returns whether there are none left.
    fn reap(&mut self) -> Result<bool, RunError> {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return Ok(false),
                Ok(status) => status,
                Err(Errno::ECHILD) => return Ok(true),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(RunError::system("waiting")(error)),
            };
            if status.pid() == Some(self.process) {
                self.code = exit_code(status).or(self.code);
            }
        }
    }

    /// The next signal, with whether the terminal sent it.
    fn signal(&self, timeout: Option<Duration>) -> Result<Option<(Signal, bool)>, RunError> {
        let timeout = timeout.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
        });
        let wait =
            || match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(_) | Err(Errno::EINTR) => self.signals.read_signal(),
                Err(error) => Err(error),
            };
        let info = wait().map_err(RunError::system("waiting for signals"))?;
        Ok(info.and_then(|info| {
            let signal = Signal::try_from(info.ssi_signo.cast_signed()).ok()?;
            Some((signal, info.ssi_code == libc::SI_KERNEL))
        }))
    }

    /// Passes a signal on to the program; when that has ended, to what it left behind. The
    /// terminal has told the whole group already.
    fn pass_on(&self, (signal, from_terminal): (Signal, bool)) {
        if signal == Signal::SIGCHLD || from_terminal {
            return;
        }
        if self.code.is_none() {
            let _ = kill(self.process, signal);
            return;
        }
        for process in children() {
            let _ = kill(process, signal);
        }
    }
}

fn is_end((signal, _): (Signal, bool)) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

fn exit_code(status: WaitStatus) -> Option<u8> {
    match status {
        WaitStatus::Exited(_, code) => u8::try_from(code).ok(),
        WaitStatus::Signaled(_, signal, _) => u8::try_from(128 + signal as i32).ok(),
        _ => None,
    }
}

/// Our children, adopted ones included.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    processes
        .filter(|process| parent(*process).is_ok_and(|parent| parent == own))
        .map(Pid::from_raw)
        .collect()
}

fn parent(process: i32) -> io::Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may have spaces and parentheses; state and parent follow it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let parent = rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
    parent.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
