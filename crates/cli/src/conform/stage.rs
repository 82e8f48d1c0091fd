//! A scenario with real programs: the server on the far side of an emulated link, clients inside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_conform::{Download, Sender, Trial};
use cellpace_emu::{FarProgram, enter_empty_network};
use cellpace_os::process::start_problem;
use cellpace_report::{Comparison, Run};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::file_server::FileServer;
use super::listening::listening_ports;
use crate::error::CommandError;
use crate::progress::interrupted;

/// Downloads with curl, from a server that has files named by their sizes.
pub(crate) const CURL: &str =
    "curl -sSf -o /dev/null http://$CELLPACE_HOST:$CELLPACE_PORT/$CELLPACE_BYTES";
/// The same several times over one connection, one every so often.
const PACED_CURL: &str = "curl -sSf -o /dev/null --rate $((60000 / CELLPACE_EVERY_MS))/m \
     \"http://$CELLPACE_HOST:$CELLPACE_PORT/$CELLPACE_BYTES?[1-$CELLPACE_COUNT]\"";
/// More than any scenario's link carries.
const ENDLESS_BYTES: u64 = 100_000_000;
/// How long a server may take until it listens.
const SERVER_START: Duration = Duration::from_secs(10);
/// How long ports are watched once there is one, in case that there will be others.
const SETTLING: Duration = Duration::from_millis(200);
/// How often is looked.
const PAUSE: Duration = Duration::from_millis(20);
/// What a shell returns when SIGTERM has ended a program: the scenario was over.
const TERMINATED: &str = "143";

/// What is under test, and what it takes to run it.
pub(crate) struct ConformStage {
    /// This program.
    program: PathBuf,
    /// The server's command; empty: TCP of the kernel.
    server: Vec<OsString>,
    client: String,
    /// `None`: the client cannot fetch several times over one connection.
    paced_client: Option<String>,
    port: Option<u16>,
    kernel_cc: Option<String>,
    folder: TempDir,
}

/// What a scenario came to.
pub(crate) struct Played {
    /// The figures, or why there are none.
    pub(crate) run: Result<Run, String>,
    /// What to know before trusting the figures.
    pub(crate) warnings: Vec<String>,
}

/// The server of one scenario.
enum Server {
    Own(FileServer),
    Foreign(FarProgram, u16),
}

impl ConformStage {
    /// Prepares files for a server to send.
    pub(crate) fn new(
        server: Vec<OsString>,
        client: Option<String>,
        paced_client: Option<String>,
        port: Option<u16>,
        kernel_cc: Option<String>,
    ) -> Result<Self, CommandError> {
        let program = std::env::current_exe().map_err(CommandError::failed)?;
        let folder = tempfile::tempdir().map_err(CommandError::failed)?;
        let paced_client = match client {
            Some(_) => paced_client,
            None => paced_client.or_else(|| Some(PACED_CURL.to_owned())),
        };
        let client = client.unwrap_or_else(|| CURL.to_owned());
        let stage = Self { program, server, client, paced_client, port, kernel_cc, folder };
        fs::create_dir(stage.files()).map_err(CommandError::failed)?;
        Ok(stage)
    }

    /// The command that downloads.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// The congestion control of the kernel's TCP.
    pub(crate) fn kernel_cc(&self) -> String {
        let system = || fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        self.kernel_cc.clone().unwrap_or_else(|| system().unwrap_or_default().trim().to_owned())
    }

    /// The folder with files named by their sizes in bytes.
    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// Runs a scenario with everything in namespaces of its own.
    ///
    /// # Errors
    /// When the server does not start, or this system has no namespaces.
    pub(crate) fn play(&self, trial: &Trial) -> Result<Played, CommandError> {
        let is_kept = |flow: &Download| flow.fetch.is_some_and(|fetch| fetch.is_kept());
        if self.paced_client.is_none() && trial.flows.iter().any(is_kept) {
            let why = "--client fetches once: give a --paced-client that fetches several times over \
                       one connection";
            return Ok(Played { run: Err(why.to_owned()), warnings: Vec::new() });
        }
        enter_empty_network().map_err(CommandError::failed)?;
        let mut server = self.start_server(trial)?;
        let rival = trial.flows.iter().any(|flow| flow.who == Sender::Cubic);
        let rival = rival.then(|| FileServer::start(Some("cubic"))).transpose();
        let rival = rival.map_err(|error| {
            CommandError::failed(format!("a server under the kernel's Cubic: {error}"))
        })?;
        let rival_port = rival.as_ref().map_or(0, FileServer::port);
        let mut played = self.play_link(trial, server.port(), rival_port)?;
        if let (Server::Foreign(program, _), Ok(_)) = (&mut server, &played.run)
            && let Some(code) = program.ended()
        {
            played.run =
                Err(format!("the server ended with exit code {code}{}", self.server_said()));
        }
        Ok(played)
    }

    fn start_server(&self, trial: &Trial) -> Result<Server, CommandError> {
        let Some((name, arguments)) = self.server.split_first() else {
            return self.start_own().map(Server::Own);
        };
        self.make_files(trial).map_err(CommandError::failed)?;
        let log = File::create(self.log("server")).map_err(CommandError::failed)?;
        let errors = log.try_clone().map_err(CommandError::failed)?;
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
        let files = self.files().display().to_string();
        let program = FarProgram::start(command, &[("CELLPACE_FILES".to_owned(), files)]);
        let mut program = program.map_err(CommandError::failed)?;
        let port = self.await_port(&mut program)?;
        Ok(Server::Foreign(program, port))
    }

    fn start_own(&self) -> Result<FileServer, CommandError> {
        FileServer::start(self.kernel_cc.as_deref()).map_err(|error| {
            let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let known = known.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ");
            let name = self.kernel_cc();
            CommandError::usage(format!(
                "--kernel-cc: `{name}` cannot be used ({error}); this kernel has {known} at present"
            ))
        })
    }

    /// Sparse files of all sizes that a scenario downloads.
    fn make_files(&self, trial: &Trial) -> io::Result<()> {
        for flow in &trial.flows {
            let bytes = bytes(flow);
            File::create(self.files().join(bytes.to_string()))?.set_len(bytes)?;
        }
        Ok(())
    }

    /// Waits until the server listens, and returns where.
    fn await_port(&self, server: &mut FarProgram) -> Result<u16, CommandError> {
        let started = Instant::now();
        let mut first_seen = None;
        let mut only_here = None;
        while started.elapsed() < SERVER_START && !interrupted() {
            if let Some(code) = server.ended() {
                let said = self.server_said();
                let why = format!("the server ended at once with exit code {code}{said}");
                return Err(CommandError::failed(why));
            }
            let ports = listening_ports();
            only_here = ports.iter().find(|port| port.is_loopback).map(|port| port.port);
            let mut open: Vec<u16> =
                ports.iter().filter(|port| !port.is_loopback).map(|port| port.port).collect();
            open.dedup();
            match (self.port, &open[..]) {
                (Some(port), open) if open.contains(&port) => return Ok(port),
                (None, [first, others @ ..]) => {
                    let seen = *first_seen.get_or_insert_with(Instant::now);
                    if seen.elapsed() >= SETTLING {
                        return match others.iter().all(|other| other == first) {
                            true => Ok(*first),
                            false => Err(CommandError::usage(format!(
                                "the server listens at several ports: choose with --port {first}"
                            ))),
                        };
                    }
                }
                _ => {}
            }
            sleep(PAUSE);
        }
        let wanted = self.port.map_or_else(|| "any port".to_owned(), |port| format!("port {port}"));
        let hint = match only_here {
            Some(port) => format!(
                "; it listens at port {port} of loopback, which no link leads to: let it listen at \
                 0.0.0.0 or ::"
            ),
            None => String::new(),
        };
        let said = self.server_said();
        let waited = SERVER_START.as_secs();
        let why = format!("the server does not listen at {wanted} after {waited} s{hint}{said}");
        Err(CommandError::failed(why))
    }

    fn play_link(&self, trial: &Trial, port: u16, rival: u16) -> Result<Played, CommandError> {
        let json = self.log("json");
        let files = [json.clone(), self.log("ended"), self.log("client")];
        for file in &files {
            File::create(file).map_err(CommandError::failed)?;
        }
        let noted = File::create(self.log("link")).map_err(CommandError::failed)?;
        let mut command = Command::new(&self.program);
        command.arg("link").args(trial.link_options()).arg("--json").arg(&json);
        command.args(["--", "sh", "-c", &script(trial)]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(noted);
        command.env("CELLPACE_PROGRAM", &self.program).env("CELLPACE_PORT", port.to_string());
        command.env("CELLPACE_RIVAL_PORT", rival.to_string());
        command.env("CELLPACE_CLIENT", &self.client).env("CELLPACE_CURL", CURL);
        command.env("CELLPACE_PACED_CLIENT", self.paced_client.as_deref().unwrap_or_default());
        command.env("CELLPACE_ENDED", &files[1]).env("CELLPACE_CLIENT_LOG", &files[2]);
        let child = command.spawn().map_err(CommandError::failed)?;
        await_end(child).map_err(CommandError::failed)?;
        let noted = read(&self.log("link"));
        let warning = |line: &str| line.strip_prefix("cellpace: warning: ").map(str::to_owned);
        let warnings = noted.lines().filter_map(warning);
        let warnings = warnings.map(|text| format!("{}: {text}.", trial.name)).collect();
        let run = read_run(&json).ok_or_else(|| last_line(&noted));
        let run = run.and_then(|run| self.check_clients(trial, &run).map(|()| run));
        Ok(Played { run, warnings })
    }

    /// Refuses a run whose clients did not do what the scenario says.
    fn check_clients(&self, trial: &Trial, run: &Run) -> Result<(), String> {
        let ended = read(&self.log("ended"));
        let failed = ended.split_whitespace().find(|code| !["0", TERMINATED].contains(code));
        if let Some(code) = failed {
            let said = last_line(&read(&self.log("client")));
            return Err(format!("the client ended with exit code {code}: {said}"));
        }
        let is_endless = trial.flows.iter().any(|flow| flow.fetch.is_none());
        let took = Span::from_secs_f64(run.duration_s);
        if is_endless && took < trial.duration {
            return Err(format!(
                "the download was over after {took}: the client should ask for $CELLPACE_BYTES bytes"
            ));
        }
        match run.figures.packets {
            0 => Err("nothing came through the link".to_owned()),
            _ => Ok(()),
        }
    }

    /// The last words of the server, for errors.
    fn server_said(&self) -> String {
        match last_line(&read(&self.log("server"))) {
            line if line.is_empty() => String::new(),
            line => format!(": {line}"),
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Server {
    fn port(&self) -> u16 {
        match self {
            Self::Own(server) => server.port(),
            Self::Foreign(_, port) => *port,
        }
    }
}

/// What runs inside the link: all clients, each from its start on.
fn script(trial: &Trial) -> String {
    let lines = trial.flows.iter().map(|flow| {
        format!(
            "(sleep {}; {}) 2>>\"$CELLPACE_CLIENT_LOG\" &\n",
            flow.start.as_secs_f64(),
            client(flow)
        )
    });
    format!("{}wait", lines.collect::<String>())
}

/// The commands of one download, or of several in a row.
fn client(flow: &Download) -> String {
    let bytes = bytes(flow);
    let inside = match flow.extra_rtt {
        Span::ZERO => String::new(),
        rtt => format!("\"$CELLPACE_PROGRAM\" link --quiet --rtt {rtt} -- "),
    };
    let ended = "echo $? >>\"$CELLPACE_ENDED\"";
    match (flow.who, flow.fetch) {
        (Sender::Cubic, _) => format!(
            "CELLPACE_BYTES={bytes} CELLPACE_PORT=$CELLPACE_RIVAL_PORT sh -c \"$CELLPACE_CURL\"; {ended}"
        ),
        (Sender::Tested, None) => {
            format!("CELLPACE_BYTES={bytes} {inside}sh -c \"$CELLPACE_CLIENT\"; {ended}")
        }
        (Sender::Tested, Some(fetch)) if fetch.is_kept() => format!(
            "CELLPACE_BYTES={bytes} CELLPACE_COUNT={} CELLPACE_EVERY_MS={} {inside}sh -c \
             \"$CELLPACE_PACED_CLIENT\"; {ended}",
            fetch.count,
            fetch.every.as_millis_f64(),
        ),
        (Sender::Tested, Some(fetch)) => format!(
            "n=0; while [ $n -lt {} ]; do n=$((n + 1)); CELLPACE_BYTES={bytes} {inside}sh -c \
             \"$CELLPACE_CLIENT\"; {ended}; sleep {}; done",
            fetch.count,
            fetch.gap.as_secs_f64(),
        ),
    }
}

fn bytes(flow: &Download) -> u64 {
    flow.fetch.map_or(ENDLESS_BYTES, |fetch| fetch.bytes)
}

/// Waits for a child, which is asked to end when we are.
fn await_end(mut child: Child) -> io::Result<ExitStatus> {
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted() && !is_asked {
            is_asked = true;
            // It may have got the signal of the terminal, too.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        sleep(PAUSE);
    }
}

fn read_run(json: &Path) -> Option<Run> {
    let document: Comparison = serde_json::from_str(&read(json)).ok()?;
    // The first run is that towards the clients.
    document.runs.into_iter().next()
}

fn read(file: &Path) -> String {
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().trim_start_matches("cellpace: ").to_owned()
}

/// Returns why a program cannot be started, if it is not there.
pub(crate) fn find_program(name: &str) -> Result<(), String> {
    match Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) => Err(start_problem(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_starts_every_client_at_its_time() {
        let trials = cellpace_conform::trials();
        let script = |name: &str| script(trials.iter().find(|trial| trial.name == name).unwrap());
        let against = script("against-cubic");
        assert!(
            against.contains("(sleep 0; CELLPACE_BYTES=100000000 CELLPACE_PORT=$CELLPACE_RIVAL")
        );
        assert!(against.contains("(sleep 1; CELLPACE_BYTES=100000000 sh -c \"$CELLPACE_CLIENT\""));
        assert!(script("rtt-unfairness").contains("link --quiet --rtt 80ms -- sh -c"));
        assert!(script("app-limited").contains("CELLPACE_COUNT=40 CELLPACE_EVERY_MS=250 sh"));
        assert!(script("short-flows").contains("while [ $n -lt 8 ]"));
        assert!(script("steady").ends_with("&\nwait"));
    }

    #[test]
    fn the_last_line_is_that_with_words() {
        assert_eq!(last_line("a\ncellpace: b \n\n"), "b");
        assert_eq!(last_line(""), "");
    }
}
