//! The options that describe a path; `compare` has them, and every command that drives one.

use cellpace_base::{Span, Time};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{
    DelaySpec, Handover, ImpairSpec, JitterSpec, LossSpec, PathError, PathSpec, QueueSpec,
    TraceSpec,
};
use cellpace_sim::Scenario;
use clap::Args;

use crate::error::{CommandError, named};
use crate::options::{seed, span};

/// Options of the bottleneck and of the run, for every command that drives one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
pub(crate) struct BottleneckOptions {
    /// Round-trip delay without queueing: 40ms, step:10ms/5s,100ms/5s, random:10ms..100ms/5s,
    /// file:DELAYS
    #[arg(long, default_value = "40ms", value_name = "TIME")]
    rtt: String,
    /// Queue at the bottleneck: droptail:2MB, droptail:100pkts, droptail (2MB), infinite,
    /// drophead:..., red:..., red:classic, codel, pie, fq_codel, fq
    #[arg(long, default_value = "droptail:2MB", value_name = "QUEUE")]
    queue: String,
    /// Random loss: 1%, ge:..., step:0%/5s,1%/5s, random:0%..1%/5s, file:LOSSES
    #[arg(long, default_value = "0%", value_name = "LOSS")]
    loss: String,
    /// Length of the run [default: the trace's, at most 300s; 60s where it has no end]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// Seed of everything random: same seed, same command, same bytes out
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    pub(crate) seed: u64,
}

impl BottleneckOptions {
    /// A scenario with these options, but no trace, duration or flow yet.
    pub(crate) fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, CommandError> {
        Ok(Scenario {
            queue: named("--queue", self.queue.parse::<QueueSpec>())?,
            rtt: named("--rtt", DelaySpec::parse(&self.rtt, files))?,
            loss: named("--loss", LossSpec::parse(&self.loss, files))?,
            seed: self.seed,
            ..Scenario::default()
        })
    }

    /// The bottleneck as it was written.
    pub(crate) fn words(&self) -> String {
        let Self { rtt, queue, loss, .. } = self;
        format!("--rtt {rtt} --queue {queue} --loss {loss}")
    }
}

/// Options of the path.
#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
pub(crate) struct PathOptions {
    /// Trace of the reverse direction [default: unlimited]
    #[arg(long, value_name = "TRACE")]
    uplink: Option<String>,
    /// Begin the traces of both directions here; what comes before is played when they repeat
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s", hide_default_value = true)]
    pub(crate) from: Span,
    #[command(flatten)]
    pub(crate) link: BottleneckOptions,
    /// Random loss of acks and receivers' reports on the way back; forms as for --loss
    #[arg(long, default_value = "0%", value_name = "LOSS")]
    uplink_loss: String,
    /// Impairments of packets: reorder=1%/5ms (held back so long), duplicate=0.1%, corrupt=0.01%,
    /// joined by commas; with `up:` in front those of the way back. May be repeated
    #[arg(long, value_name = "[up:]KEY=VALUE,...")]
    impair: Vec<String>,
    /// Jitter of the radio link: harq:bler=10%,rtt=8ms (one block in ten fails and comes 8 ms later,
    /// delivery in order)
    #[arg(long, default_value = "none", value_name = "JITTER")]
    jitter: String,
    /// Handover: 30s, or 30s/200ms/80ms/lost (when, interruption, new RTT, what becomes of the
    /// queue). May be repeated
    #[arg(long, value_name = "TIME[/...]")]
    handover: Vec<String>,
    /// Left out of the figures at the start [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) skip: Option<Span>,
}

/// Reads the impairments of one direction: of the way back with `up:` in front.
pub(crate) fn read_impairment(
    text: &str,
    down: &mut ImpairSpec,
    up: &mut ImpairSpec,
) -> Result<(), PathError> {
    match text.trim().strip_prefix("up:") {
        Some(rest) => *up = rest.parse()?,
        None => *down = text.parse()?,
    }
    Ok(())
}

/// A link has the handovers of a radio layer for a day.
const LONGEST_LINK: Time = Time::from_secs(86_400);

/// Both directions of a path, and when it counts.
pub(crate) struct Directions {
    pub(crate) down: PathSpec,
    pub(crate) up: PathSpec,
    /// The RTT without queueing, or its mean.
    pub(crate) rtt: Span,
    pub(crate) duration: Option<Span>,
    pub(crate) skip: Span,
}

impl PathOptions {
    /// What a link in real time needs: both directions of the path, the trace unlimited unless
    /// one is given.
    pub(crate) fn directions(
        &self,
        trace: Option<&str>,
        files: &mut TraceFiles<'_>,
    ) -> Result<Directions, CommandError> {
        // The scenario of a trace that is always there checks the other options as `compare` does.
        let scenario = self.scenario(trace.unwrap_or("constant:1gbit"), files)?;
        scenario.check_delivers().map_err(|error| {
            let text = error.to_string().replacen("uplink_loss", "uplink-loss", 1);
            CommandError::usage(format!("--{text}"))
        })?;
        let delay = scenario.rtt.half();
        let rtt = scenario.rtt.mean();
        let drawn = scenario.trace.drawn(self.link.seed, self.link.duration.unwrap_or(Span::ZERO));
        let mut handovers = scenario.handovers;
        handovers.extend(drawn.handovers(LONGEST_LINK));
        let down = PathSpec {
            trace: trace.map(|_| drawn),
            queue: scenario.queue,
            delay: delay.clone(),
            rtt,
            loss: scenario.loss,
            handovers: handovers.clone(),
            impair: scenario.impair,
            jitter: scenario.jitter,
            // Real senders bring their own.
            send_jitter: Vec::new(),
        };
        let up = PathSpec {
            trace: scenario.uplink,
            delay,
            rtt,
            loss: scenario.uplink_loss,
            handovers,
            impair: scenario.uplink_impair,
            ..PathSpec::default()
        };
        Ok(Directions {
            down,
            up,
            rtt,
            duration: self.link.duration,
            skip: self.skip.unwrap_or(Span::ZERO),
        })
    }

    /// A scenario over `trace` with these options and no flow yet.
    pub(crate) fn scenario(
        &self,
        trace: &str,
        files: &mut TraceFiles<'_>,
    ) -> Result<Scenario, CommandError> {
        let trace = named("--trace", TraceSpec::parse(trace, files))?;
        let duration = self.link.duration.unwrap_or_else(|| trace.default_duration());
        Ok(Scenario { trace: trace.starting_at(self.from), duration, ..self.conditions(files)? })
    }

    /// A scenario with these options, but no trace, duration or flow yet.
    pub(crate) fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, CommandError> {
        let uplink = self.uplink.as_deref().map(|text| TraceSpec::parse(text, files)).transpose();
        let (impair, uplink_impair) = self.impairments()?;
        Ok(Scenario {
            uplink: named("--uplink", uplink)?.map(|uplink| uplink.starting_at(self.from)),
            uplink_loss: named("--uplink-loss", LossSpec::parse(&self.uplink_loss, files))?,
            impair,
            uplink_impair,
            jitter: named("--jitter", self.jitter.parse::<JitterSpec>())?,
            handovers: self.handovers()?,
            skip: self.skip.unwrap_or(Scenario::default().skip),
            ..self.link.conditions(files)?
        })
    }

    fn impairments(&self) -> Result<(ImpairSpec, ImpairSpec), CommandError> {
        let (mut down, mut up) = (ImpairSpec::default(), ImpairSpec::default());
        for text in &self.impair {
            named("--impair", read_impairment(text, &mut down, &mut up))?;
        }
        Ok((down, up))
    }

    fn handovers(&self) -> Result<Vec<Handover>, CommandError> {
        let read = |text: &String| named("--handover", text.parse::<Handover>());
        let handovers = self.handover.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Handover::check_order(&handovers)
            .map_err(|why| CommandError::usage(format!("--handover: {why}")))?;
        Ok(handovers)
    }
}
