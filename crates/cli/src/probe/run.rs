//! The loops of both sides, and what is written afterwards.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_base::{Span, Time};
use cellpace_lab::transfer::shown_address;
use cellpace_live::{NewConnection, SharedFigures};
use cellpace_path::schedule::Trace;
use cellpace_probe::{
    DirectionFigures, DirectionProgress, Pattern, Plan, Prober, Recording, Responder, analyse,
    constant_rate_trace, summary,
};
use cellpace_report::indented;
use cellpace_udp::Driver;
use rustix::thread::CapabilitySet;

use super::options::ProbeArgs;
use crate::address::{HostPort, ListenAddress, PROBE_PORT, connect_to};
use crate::dashboard::OpenDashboard;
use crate::error::CommandError;
use crate::line_writer::begin_service;
use crate::output::{command_line, complain, is_stdout, print, write_bytes};
use crate::privileges::give_up_all_but;
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};

/// How often the loops look whether they are interrupted.
const LOOK_UP: Span = Span::from_millis(100);

/// A far side that is started at the same moment has this long to open its port.
const START_WITHIN: Time = Time::from_millis(1_500);

pub(crate) fn run(args: &ProbeArgs) -> Result<ExitCode, CommandError> {
    match (&args.target, &args.listen) {
        (Some(target), _) => probe(args, target),
        (None, Some(address)) => listen(args, address),
        (None, None) => Err(CommandError::usage("write HOST, or --listen PORT")),
    }
}

fn listen(args: &ProbeArgs, address: &ListenAddress) -> Result<ExitCode, CommandError> {
    let protection = args.protection()?;
    let (secret, new_id) = Driver::secrets().map_err(CommandError::failed)?;
    let responder = Responder::new(args.limits(), secret, new_id).protected(&protection);
    let mut driver = Driver::new(responder).without_coalescing();
    let at = address.bind(&mut driver, PROBE_PORT, args.key.is_given())?;
    give_up_all_but(CapabilitySet::empty(), [])?;
    begin_service()?;
    args.verbosity.note(&format!("waiting for probers at {at}"));
    end_cleanly_on_ctrl_c();
    while !interrupted() {
        driver.turn(driver.now() + LOOK_UP, None).map_err(CommandError::failed)?;
        while let Some(line) = driver.endpoint.poll_line() {
            args.verbosity.detail(|| line);
        }
    }
    Ok(interruption_code())
}

fn probe(args: &ProbeArgs, target: &HostPort) -> Result<ExitCode, CommandError> {
    let plan = args.plan()?;
    args.check()?;
    let protection = args.protection()?;
    let peer = target.resolve(PROBE_PORT)?;
    let (_, mut new_id) = Driver::secrets().map_err(CommandError::failed)?;
    let gap = args.max_rate.time_for(u64::from(plan.size));
    // The first socket has the number 0.
    let prober =
        Prober::new(Time::ZERO, plan, peer, 0, new_id().max(1), gap).protected(&protection);
    let mut driver = Driver::new(prober).without_coalescing();
    connect_to(&mut driver, peer)?;
    end_cleanly_on_ctrl_c();
    let shown = ShownProbe::open(args, target, &plan)?;
    measure(&mut driver, &plan, shown.as_ref())?;
    if let Some(shown) = shown {
        shown.open.finish();
    }
    warn_of_refused(&driver, args);
    let unreachable = driver.trouble().unreachable.is_some();
    let outcome = driver.endpoint.outcome().cloned();
    let recording = driver.endpoint.into_recording();
    let is_empty = recording.up.arrivals.is_empty() && recording.down.arrivals.is_empty();
    match outcome {
        _ if is_empty && interrupted() => return Ok(interruption_code()),
        None if is_empty && unreachable => return Err(CommandError::failed(nothing_listens(peer))),
        Some(Err(error)) if is_empty => return Err(CommandError::failed(error)),
        Some(Err(error)) => complain(&format!("{error}; what was measured until then follows")),
        _ => {}
    }
    conclude(args, target, &plan, &recording)
}

/// Sends and records until the session is over, was interrupted, or cannot begin.
fn measure(
    driver: &mut Driver<Prober>,
    plan: &Plan,
    shown: Option<&ShownProbe>,
) -> Result<(), CommandError> {
    let seconds = plan.duration.as_secs_f64();
    let progress = Progress::new(seconds.ceil() as usize, "s");
    let (mut began, mut stopping) = (None, false);
    while driver.endpoint.outcome().is_none() {
        driver.turn(driver.now() + LOOK_UP, None).map_err(CommandError::failed)?;
        let now = driver.now();
        if let (Some(shown), Some(progress)) = (shown, driver.endpoint.progress()) {
            shown.update(progress);
        }
        if driver.endpoint.is_running() {
            let elapsed = (now - *began.get_or_insert(now)).as_secs_f64();
            progress.reached((elapsed / seconds).min(1.0));
        } else if began.is_none() && now > START_WITHIN && driver.trouble().unreachable.is_some() {
            break;
        }
        if interrupted() && !stopping {
            stopping = true;
            driver.endpoint.stop();
        }
    }
    progress.finish();
    Ok(())
}

/// Both directions, as the live view shows them.
struct ShownProbe {
    open: OpenDashboard,
    /// Up and down.
    figures: [SharedFigures; 2],
    size: u64,
}

impl ShownProbe {
    fn open(
        args: &ProbeArgs,
        target: &HostPort,
        plan: &Plan,
    ) -> Result<Option<Self>, CommandError> {
        let open = args.dashboard.open("probe", target.to_string(), None, args.verbosity)?;
        let Some(open) = open else { return Ok(None) };
        let figures = [SharedFigures::default(), SharedFigures::default()];
        let ways = [("up", plan.up), ("down", plan.down)];
        for ((number, figures), (name, _)) in
            (0..).zip(&figures).zip(ways).filter(|(_, (_, is_sent))| *is_sent)
        {
            let (name, source) = (name.to_owned(), Box::new(figures.clone()));
            open.connections().opened(NewConnection {
                number,
                name,
                controller: "".into(),
                driver: "",
                source,
            });
        }
        Ok(Some(Self { open, figures, size: plan.size.into() }))
    }

    fn update(&self, progress: [DirectionProgress; 2]) {
        for (figures, progress) in self.figures.iter().zip(progress) {
            figures.update(|figures| {
                figures.sent_bytes = progress.sent * self.size;
                figures.delivered_bytes = progress.arrived * self.size;
                figures.lost = progress.missing;
                figures.rtt = progress.least_rtt.map(|_| progress.rtt);
                figures.min_rtt = progress.least_rtt;
                figures.queue_delay = (progress.arrived > 0).then_some(progress.queue_delay);
            });
        }
    }
}

fn nothing_listens(peer: SocketAddr) -> String {
    let peer = shown_address(peer);
    format!("{peer}: no program has that UDP port there; run `cellpace probe --listen` there first")
}

fn warn_of_refused(driver: &Driver<Prober>, args: &ProbeArgs) {
    let trouble = driver.trouble();
    if trouble.refused > 0 {
        let hint = if trouble.too_large { "; try a smaller --size" } else { "" };
        let (count, reason) = (trouble.refused, &trouble.last_error);
        args.verbosity.note(&format!("the system did not send {count} datagrams: {reason}{hint}"));
    }
}

fn conclude(
    args: &ProbeArgs,
    target: &HostPort,
    plan: &Plan,
    recording: &Recording,
) -> Result<ExitCode, CommandError> {
    let mut document = analyse(recording, &target.to_string(), env!("CARGO_PKG_VERSION"));
    document.command = command_line();
    let to_stdout = args.files.use_stdout() || args.record.as_deref().is_some_and(is_stdout);
    if !args.verbosity.is_quiet() && !to_stdout {
        print(&summary(&document))?;
    }
    args.files.write(|| indented(&document))?;
    if let Some(path) = &args.record {
        let both = plan.up && plan.down;
        let ways = [
            ("up", plan.up, &recording.up, document.up.as_ref()),
            ("down", plan.down, &recording.down, document.down.as_ref()),
        ];
        for (suffix, _, way, figures) in ways.into_iter().filter(|(_, is_sent, ..)| *is_sent) {
            let path = with_suffix(path, both.then_some(suffix));
            match plan.pattern {
                Pattern::Saturate { .. } => write_trace(&path, figures)?,
                Pattern::Every(_) => write_bounded(&path, constant_rate_trace(plan, way))?,
            }
        }
    }
    if interrupted() {
        return Ok(interruption_code());
    }
    Ok(if document.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with_suffix(path: &Path, suffix: Option<&str>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if let Some(suffix) = suffix {
        name.push(".");
        name.push(suffix);
    }
    PathBuf::from(name)
}

fn trace_of(millis: Vec<u32>, path: &Path) -> Result<Trace, CommandError> {
    Trace::from_millis(millis)
        .map_err(|error| CommandError::failed(format!("nothing to write to {path:?}: {error}")))
}

fn write_file(path: &Path, trace: &Trace) -> Result<(), CommandError> {
    let mut text = Vec::new();
    trace.write(&mut text).map_err(CommandError::failed)?;
    write_bytes(path, &text)
}

/// Writes what arrived of probes at a constant rate, and that it is no more than that.
fn write_bounded(path: &Path, millis: Vec<u32>) -> Result<(), CommandError> {
    write_file(path, &trace_of(millis, path)?.bounded_by_sender())
}

fn write_trace(path: &Path, direction: Option<&DirectionFigures>) -> Result<(), CommandError> {
    let Some(found) = direction.and_then(|direction| direction.trace.as_ref()) else {
        return Ok(());
    };
    write_file(path, &trace_of(found.millis.clone(), path)?)?;
    if found.idle_share > 0.01 {
        complain(&format!(
            "the queue may have been empty for {:.1} % of the time, so the trace may miss \
             opportunities",
            found.idle_share * 100.0
        ));
    }
    Ok(())
}
