//! `cellpace attach`: connections of programs that cannot be preloaded, under a controller.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_cc::ControllerSpec;
use cellpace_control::Ports;
use cellpace_kernel::NAME;
use clap::Args;

use crate::error::Failure;

/// Arguments of `cellpace attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace attach --port 443 --cc verus
  cellpace attach --port 80,443 --pid $(pidof caddy) --cc copa --log
  cellpace attach --out 22 --cc copa     # connections that programs open

The programs need no restart and no library, so that static ones and those in Go work, too. New
connections at the ports are under the controller until this command ends; connections that exist
stay as they are. Needs `cellpace kernel install` before, and CAP_BPF, CAP_PERFMON and
CAP_NET_ADMIN, as root has them; with Verus and Markov tables better CAP_SYS_PTRACE, too.")]
pub(crate) struct AttachArgs {
    /// Connections that programs accept at these ports: 443 or 80,8000-8100
    #[arg(long, value_name = "PORTS", required_unless_present = "outgoing")]
    port: Option<Ports>,
    /// Connections that programs open to these ports
    #[arg(long = "out", value_name = "PORTS")]
    outgoing: Option<Ports>,
    /// The controller
    #[arg(long, value_name = "CONTROLLER", default_value = "verus")]
    cc: String,
    /// Seed of what is random in the controllers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Programs in this cgroup, of version 2, and below it [default: all programs]
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    /// Programs in the cgroup of this process, and below it
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Say on standard error what became of each connection, one line each
    #[arg(long)]
    log: bool,
    /// Write the same as JSON, one object a line (schema cellpace.attach/1; `-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode, Failure> {
    daemon::run(args, &controller(&args.cc)?)
}

fn controller(text: &str) -> Result<ControllerSpec, Failure> {
    let cc = cellpace_lab::read_controller(text)
        .map_err(|error| Failure::usage(format!("--cc: {error}")))?;
    if cc.has_receiver() {
        return Err(Failure::usage(format!(
            "--cc: {} needs an answering half at the other end, which the kernel has not",
            cc.name()
        )));
    }
    Ok(cc)
}

#[cfg(not(feature = "kernel"))]
mod daemon {
    use super::{AttachArgs, ControllerSpec, ExitCode, Failure};

    pub(super) fn run(args: &AttachArgs, _: &ControllerSpec) -> Result<ExitCode, Failure> {
        let AttachArgs {
            port: _,
            outgoing: _,
            cgroup: _,
            pid: _,
            log: _,
            json: _,
            events: _,
            name: _,
            ..
        } = args;
        Err(crate::kernel::without_program())
    }
}

#[cfg(feature = "kernel")]
mod daemon {
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use cellpace_base::Span;
    use cellpace_control::Ports;
    use cellpace_kernel::attach::{
        Announced, AttachError, AttachOptions, Attachment, Missed, missing_capabilities,
    };
    use cellpace_kernel::cgroup;
    use cellpace_kernel::facts::Facts;
    use cellpace_tcp::{FlowHandle, FlowOutcome, FlowStats, KernelConnection, KernelDriver};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use serde_json::json;

    use super::{AttachArgs, ControllerSpec, ExitCode, Failure, PathBuf};
    use crate::finder::Finder;
    use crate::flow_events::{FlowEvents, LOOK};
    use crate::output::complain;
    use crate::progress::{end_cleanly_on_ctrl_c, interrupted};

    /// So often are connections that could not be taken told of, at most.
    const REMIND: Duration = Duration::from_secs(1);

    pub(super) fn run(args: &AttachArgs, cc: &ControllerSpec) -> Result<ExitCode, Failure> {
        end_cleanly_on_ctrl_c();
        // One for each process that has connections of ours.
        cellpace_os::descriptors::raise_limit();
        may(args)?;
        let cgroup = place(args)?;
        let report = Report::open(args)?;
        let events = FlowEvents::create(args.events.as_deref(), "cellpace attach", cc)?;
        let driver = Arc::new(KernelDriver::open(&args.name).map_err(Failure::failed)?);
        let attachment = attach(args, &cgroup, &driver)?;
        let finder = Finder::start(driver.clone())
            .map_err(|error| Failure::failed(format!("starting a thread: {error}")))?;
        complain(&format!("attached to {}: {}", cgroup.display(), what(args)));
        let flows = Vec::new();
        let (cc, seed) = (cc.clone(), args.seed);
        Daemon { driver, finder, attachment, cc, seed, report, events, flows, count: 0 }.run()
    }

    fn may(args: &AttachArgs) -> Result<(), Failure> {
        match missing_capabilities(&Facts::find(&args.name)).as_slice() {
            [] => Ok(()),
            missing => Err(Failure::failed(format!(
                "this process lacks {}: run it as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
                missing.join(" and ")
            ))),
        }
    }

    fn place(args: &AttachArgs) -> Result<PathBuf, Failure> {
        let place = match (&args.cgroup, args.pid) {
            (Some(path), _) => cgroup::check(path).map(|()| path.clone()),
            (None, Some(pid)) => cgroup::of_process(pid),
            (None, None) => cgroup::root(),
        };
        let option = match (&args.cgroup, args.pid) {
            (Some(_), _) => "--cgroup: ",
            (None, Some(_)) => "--pid: ",
            (None, None) => "",
        };
        place.map_err(|error| Failure::failed(format!("{option}{error}")))
    }

    fn attach(
        args: &AttachArgs,
        cgroup: &Path,
        driver: &KernelDriver,
    ) -> Result<Attachment, Failure> {
        let (slot, owner) = driver.slot();
        let options = AttachOptions {
            name: &args.name,
            slot,
            owner,
            accepted: args.port.as_ref().map_or(&[], Ports::ranges),
            opened: args.outgoing.as_ref().map_or(&[], Ports::ranges),
        };
        Attachment::new(cgroup, &options).map_err(|error| match error {
            AttachError::Ranges => Failure::usage(error),
            error => Failure::failed(error),
        })
    }

    /// What is under control, in words.
    fn what(args: &AttachArgs) -> String {
        let accepted = args.port.map(|ports| format!("accepted at {ports}"));
        let opened = args.outgoing.map(|ports| format!("opened to {ports}"));
        let which: Vec<String> = accepted.into_iter().chain(opened).collect();
        format!("connections {} are under {}", which.join(" and "), args.cc)
    }

    /// A connection under control.
    struct Flow {
        number: u64,
        announced: Announced,
        handle: FlowHandle,
        since: Instant,
    }

    struct Daemon {
        driver: Arc<KernelDriver>,
        finder: Finder,
        attachment: Attachment,
        cc: ControllerSpec,
        seed: u64,
        report: Report,
        events: Option<FlowEvents>,
        flows: Vec<Flow>,
        /// Connections up to now.
        count: u64,
    }

    impl Daemon {
        fn run(mut self) -> Result<ExitCode, Failure> {
            let mut look_at = Instant::now();
            let mut reminded = (Instant::now(), Missed::default());
            while !interrupted() {
                self.wait();
                self.adopt()?;
                if Instant::now() < look_at {
                    continue;
                }
                // Ended connections are told of so late, and Ctrl-C heard.
                look_at = Instant::now() + LOOK;
                if let Some(events) = &mut self.events {
                    events.look();
                }
                self.tell_ended();
                if reminded.0.elapsed() >= REMIND {
                    reminded = (Instant::now(), self.remind(reminded.1));
                }
                if !self.driver.is_running() {
                    return Err(Failure::failed(
                        "no place at the kernel driver any more: it was removed, or this process \
                         was stopped for too long; connections go on by themselves",
                    ));
                }
            }
            self.end()
        }

        fn wait(&self) {
            let announcements = self.attachment.as_fd();
            let mut fds = [PollFd::new(&announcements, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
            // Interrupted or not: what is not reported now is reported the next time.
            let _ = poll(&mut fds, Some(&timeout));
        }

        fn adopt(&mut self) -> Result<(), Failure> {
            let mut new = Vec::new();
            self.attachment.drain(|announced| new.push(announced));
            for announced in new {
                self.count += 1;
                let connection = KernelConnection {
                    cookie: announced.cookie,
                    mss: announced.mss.max(1),
                    overhead: announced.overhead,
                    acked: announced.acked,
                    local: announced.local,
                    peer: announced.peer,
                };
                let seed = self.seed.wrapping_add(self.count - 1);
                let handle =
                    self.driver.adopt(&connection, &self.cc, seed).map_err(Failure::failed)?;
                let (number, since) = (self.count, Instant::now());
                if let Some(events) = &mut self.events {
                    events.opened(number, handle.clone());
                }
                self.flows.push(Flow { number, announced, handle, since });
            }
            Ok(())
        }

        fn tell_ended(&mut self) {
            let Self { flows, report, events, .. } = self;
            flows.retain(|flow| match flow.handle.outcome() {
                Some(outcome) => {
                    report.tell(flow, &said(outcome));
                    if let Some(events) = events {
                        events.closed(flow.number);
                    }
                    false
                }
                None => true,
            });
        }

        /// Says what was not taken since the last time.
        fn remind(&self, before: Missed) -> Missed {
            // It worked a moment ago, and is for information only.
            let Ok(now) = self.attachment.missed() else { return before };
            for (now, before, why) in [
                (now.unannounced, before.unannounced, "too many at once"),
                (now.full, before.full, "too many sockets are under control"),
                (now.refused, before.refused, "the kernel driver was removed"),
            ] {
                if now > before {
                    complain(&format!("{} connections stay plain: {why}", now - before));
                }
            }
            now
        }

        /// Nothing new first; then the sockets are left to themselves.
        fn end(mut self) -> Result<ExitCode, Failure> {
            drop(self.attachment);
            let report = self.report;
            self.flows.retain(|flow| {
                let outcome = flow.handle.outcome();
                report.tell(flow, &outcome.map_or_else(|| "released".to_owned(), said));
                outcome.is_none()
            });
            if let Some(events) = self.events {
                events.finish();
            }
            // It has the other half of the driver, which ends with both.
            drop(self.finder);
            drop(self.driver);
            match self.flows.len() {
                0 => {}
                1 => complain("1 connection goes on by itself (RFC 5681)"),
                count => complain(&format!("{count} connections go on by themselves (RFC 5681)")),
            }
            Ok(ExitCode::SUCCESS)
        }
    }

    fn said(outcome: FlowOutcome) -> String {
        match outcome {
            FlowOutcome::Finished => "finished".to_owned(),
            FlowOutcome::Failed(code) => io::Error::from_raw_os_error(code).to_string(),
            FlowOutcome::Alcc(error) => error.to_string(),
        }
    }

    /// What is told of connections.
    struct Report {
        log: bool,
        json: Option<File>,
    }

    impl Report {
        fn open(args: &AttachArgs) -> Result<Self, Failure> {
            let json = args.json.as_ref().map(|path| {
                let file = match path.to_str() {
                    Some("-") => io::stdout().as_fd().try_clone_to_owned().map(File::from),
                    _ => File::create(path),
                };
                file.map_err(|error| {
                    Failure::failed(format!("--json: {}: {error}", path.display()))
                })
            });
            Ok(Self { log: args.log, json: json.transpose()? })
        }

        fn tell(&self, flow: &Flow, outcome: &str) {
            let stats = flow.handle.stats();
            if self.log {
                complain(&line(flow, &stats, outcome));
            }
            if let Some(mut file) = self.json.as_ref() {
                // A full disk must not end the control of connections.
                let _ = writeln!(file, "{}", object(flow, &stats, outcome));
            }
        }
    }

    fn line(flow: &Flow, stats: &FlowStats, outcome: &str) -> String {
        let Announced { local, peer, opened, .. } = flow.announced;
        let arrow = if opened { "->" } else { "<-" };
        let rtt = |name, span: Option<Span>| {
            span.map_or_else(String::new, |span| format!(", {name} {:.1} ms", span.as_millis_f64()))
        };
        format!(
            "flow {}: {local} {arrow} {peer}, {:.3} s, {} bytes acknowledged{}{}, {} segments sent again, \
             {outcome}",
            flow.number,
            flow.since.elapsed().as_secs_f64(),
            stats.acked_bytes,
            rtt("RTT", stats.srtt),
            rtt("smallest", stats.min_rtt),
            stats.retransmissions,
        )
    }

    fn object(flow: &Flow, stats: &FlowStats, outcome: &str) -> serde_json::Value {
        let Announced { local, peer, opened, .. } = flow.announced;
        json!({
            "schema": "cellpace.attach/1",
            "flow": flow.number,
            "direction": if opened { "out" } else { "in" },
            "local": local.to_string(),
            "peer": peer.to_string(),
            "duration_s": flow.since.elapsed().as_secs_f64(),
            "sent_bytes": stats.sent_bytes,
            "acked_bytes": stats.acked_bytes,
            "rtt_ms": stats.srtt.map(Span::as_millis_f64),
            "min_rtt_ms": stats.min_rtt.map(Span::as_millis_f64),
            "retransmissions": stats.retransmissions,
            "kicks": stats.kicks,
            // Where the algorithm has no window, it is infinite.
            "cwnd_bytes": Some(stats.cwnd).filter(|cwnd| *cwnd < u64::MAX),
            "tcp_cwnd_bytes": stats.tcp_cwnd,
            "outcome": outcome,
        })
    }
}
