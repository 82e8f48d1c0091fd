//! The program's life: starting it, passing signals on, and waiting for it and all it started.

#![allow(unsafe_code, reason = "what runs between fork and exec")]

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use cellpace_control::{Rules, variables};
use cellpace_os::descriptors::raise_limit_to_system;
use cellpace_os::process;
use cellpace_os::signals::{CaughtSignal, Signals};
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::notice::RunNotice;
use crate::plain_programs::PlainPrograms;
use crate::{Broker, PreloadLibrary, RunError};

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
    signals: Signals,
    /// State that the program must find as it would be without us.
    mask: SigSet,
    files: Rlimit,
    /// Standard output is ours: what the program writes there goes to standard error.
    output_on_stderr: bool,
}

impl Launch {
    /// Prepares this process. To be called before there are other threads, which would take the
    /// signals otherwise.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn prepare() -> Result<Self, RunError> {
        // A process that ignores it, perhaps since its parent did, is not informed of how children ended.
        // SAFETY: sets no handler.
        let default = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
        let prepare = || {
            default?;
            // Descendants whose parents end become our children, so that we know when all ended.
            nix::sys::prctl::set_child_subreaper(true)?;
            Signals::catch(&PASSED_ON)
        };
        let (signals, mask) = prepare().map_err(RunError::system("catching signals"))?;
        let files = raise_limit_to_system();
        Ok(Self { signals, mask, files, output_on_stderr: false })
    }

    /// The program's standard output goes to standard error.
    #[must_use]
    pub fn with_output_on_stderr(self) -> Self {
        Self { output_on_stderr: true, ..self }
    }

    /// Starts the program with the library preloaded.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        self,
        program: &[OsString],
        library: &PreloadLibrary,
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
        if self.output_on_stderr {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            command.stdout(stderr.map_err(RunError::system("standard error"))?);
        }
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

/// How long a look at the flows takes at most.
const LOOK: Duration = Duration::from_millis(5);

/// The program, and whatever it starts.
#[derive(Debug)]
pub struct Running {
    signals: Signals,
    process: Pid,
    /// Set when the program has ended.
    code: Option<u8>,
}

/// How often programs that cannot be preloaded are looked for.
const LOOK_FOR_OTHERS: Duration = Duration::from_secs(1);

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
    /// for as long as `drain` at most; a signal meanwhile cuts that short. What is to be said
    /// meanwhile goes to `notice`.
    ///
    /// # Errors
    /// When the system does not let us wait.
    pub fn wait(
        mut self,
        broker: &Broker,
        drain: Duration,
        notice: &mut dyn FnMut(RunNotice),
    ) -> Result<Finish, RunError> {
        let mut others = PlainPrograms::new();
        let (mut ended_at, mut has_said) = (None, false);
        while !self.reap()? {
            if self.code.is_some() {
                let since: Instant = *ended_at.get_or_insert_with(Instant::now);
                // Most end with it, or at once.
                if since.elapsed() >= LOOK_FOR_OTHERS && !std::mem::replace(&mut has_said, true) {
                    notice(RunNotice::Waits(left_behind()));
                }
            }
            others.look(notice);
            if let Some(signal) = self.next_signal(Some(LOOK_FOR_OTHERS))? {
                if signal.signal == Signal::SIGHUP {
                    notice(RunNotice::Hangup);
                }
                self.pass_on(signal);
            }
        }
        let until = Instant::now() + drain;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Flows' ends come by another way than signals.
            let cut = broker.wait(left.clamp(LOOK, 4 * LOOK));
            let is_asked_to_end =
                matches!(self.next_signal(Some(Duration::ZERO))?, Some(caught) if caught.is_end());
            if cut == 0 || left.is_zero() || is_asked_to_end {
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

    fn next_signal(&self, timeout: Option<Duration>) -> Result<Option<CaughtSignal>, RunError> {
        self.signals.next(timeout).map_err(RunError::system("waiting for signals"))
    }

    /// Passes a signal on to the program; when that has ended, to what it left behind. The
    /// terminal has sent it to the whole group already.
    fn pass_on(&self, caught: CaughtSignal) {
        let CaughtSignal { signal, from_terminal } = caught;
        if signal == Signal::SIGCHLD || from_terminal {
            return;
        }
        if self.code.is_none() {
            let _ = kill(self.process, signal);
            return;
        }
        for process in process::children() {
            let _ = kill(Pid::from_raw(process), signal);
        }
    }
}

fn left_behind() -> Vec<(i32, String)> {
    process::children().map(|number| (number, process::name(number))).collect()
}

fn exit_code(status: WaitStatus) -> Option<u8> {
    match status {
        WaitStatus::Exited(_, code) => u8::try_from(code).ok(),
        WaitStatus::Signaled(_, signal, _) => u8::try_from(128 + signal as i32).ok(),
        _ => None,
    }
}
