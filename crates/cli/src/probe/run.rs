//! The loops of both sides, and what is written afterwards.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_base::{Span, Time};
use cellpace_path::schedule::Trace;
use cellpace_probe::{DirectionFigures, Plan, Prober, Recording, Responder, analyse, summary};
use cellpace_udp::Driver;

use super::options::ProbeArgs;
use crate::error::CommandError;
use crate::output::{complain, is_stdout, pretty, print, write_bytes, write_json};
use crate::progress::{end_cleanly_on_ctrl_c, interrupted};
use crate::report::write_report;
use crate::transfer::{bind_for, listen_at, resolve};

/// How often the loops look whether they are interrupted.
const LOOK_UP: Span = Span::from_millis(100);

pub(crate) fn run(args: &ProbeArgs) -> Result<ExitCode, CommandError> {
    match &args.target {
        Some(target) => probe(args, target),
        None => listen(args),
    }
}

fn listen(args: &ProbeArgs) -> Result<ExitCode, CommandError> {
    let protection = args.protection()?;
    let (secret, new_id) = Driver::secrets().map_err(CommandError::failed)?;
    let responder = Responder::new(args.limits(), secret, new_id).protected(protection);
    let mut driver = Driver::new(responder);
    let at = listen_at(&mut driver, args.listen.as_deref(), args.key.is_given())?;
    complain(&format!("waiting for probers at {at}"));
    end_cleanly_on_ctrl_c();
    while !interrupted() {
        driver.turn(driver.now() + LOOK_UP, None).map_err(CommandError::failed)?;
        while let Some(line) = driver.endpoint.poll_line() {
            print(&format!("{line}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn probe(args: &ProbeArgs, target: &str) -> Result<ExitCode, CommandError> {
    let plan = args.plan()?;
    let protection = args.protection()?;
    let peer = resolve(target)?;
    let (_, mut new_id) = Driver::secrets().map_err(CommandError::failed)?;
    let gap = args.max_rate.time_for(u64::from(plan.size));
    // The first socket has the number 0.
    let prober = Prober::new(Time::ZERO, plan, peer, 0, new_id().max(1), gap).protected(protection);
    let mut driver = Driver::new(prober);
    bind_for(&mut driver, peer)?;
    end_cleanly_on_ctrl_c();
    let mut stopping = false;
    while driver.endpoint.outcome().is_none() {
        driver.turn(driver.now() + LOOK_UP, None).map_err(CommandError::failed)?;
        if interrupted() && !stopping {
            stopping = true;
            driver.endpoint.stop();
        }
    }
    let trouble = driver.trouble().clone();
    if trouble.refused > 0 {
        let hint = if trouble.too_large { "; try a smaller --size" } else { "" };
        let (count, said) = (trouble.refused, &trouble.last_error);
        complain(&format!("the system refused {count} datagrams: {said}{hint}"));
    }
    let outcome = driver.endpoint.outcome().cloned();
    let recording = driver.endpoint.into_recording();
    let is_empty = recording.up.arrivals.is_empty() && recording.down.arrivals.is_empty();
    match outcome {
        Some(Err(error)) if is_empty => return Err(CommandError::failed(error)),
        Some(Err(error)) => complain(&format!("{error}; what was measured until then follows")),
        _ => {}
    }
    conclude(args, target, &plan, &recording)
}

fn conclude(
    args: &ProbeArgs,
    target: &str,
    plan: &Plan,
    recording: &Recording,
) -> Result<ExitCode, CommandError> {
    let document = analyse(recording, target, env!("CARGO_PKG_VERSION"), args.burst_gap);
    if !args.json.as_deref().is_some_and(is_stdout) {
        print(&summary(&document))?;
    }
    write_json(args.json.as_deref(), || pretty(&document))?;
    if let Some(path) = &args.report {
        write_report(path, &[&pretty(&document)])?;
    }
    if let Some(path) = &args.trace_out {
        let both = plan.up && plan.down;
        write_trace(path, both.then_some("up"), document.up.as_ref())?;
        write_trace(path, both.then_some("down"), document.down.as_ref())?;
    }
    Ok(if document.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_trace(
    path: &Path,
    suffix: Option<&str>,
    direction: Option<&DirectionFigures>,
) -> Result<(), CommandError> {
    let Some(found) = direction.and_then(|direction| direction.trace.as_ref()) else {
        return Ok(());
    };
    let mut name = path.as_os_str().to_owned();
    if let Some(suffix) = suffix {
        name.push(".");
        name.push(suffix);
    }
    let path = PathBuf::from(name);
    let trace = Trace::from_millis(found.millis.clone())
        .map_err(|error| CommandError::failed(format!("nothing to write to {path:?}: {error}")))?;
    let mut text = Vec::new();
    trace.write(&mut text).map_err(CommandError::failed)?;
    write_bytes(&path, &text)?;
    if found.idle_share > 0.01 {
        complain(&format!(
            "the queue may have been empty for {:.1} % of the time, so the trace may miss \
             opportunities",
            found.idle_share * 100.0
        ));
    }
    Ok(())
}
