//! The options that describe a path; `compare` has them, and every command that drives one.

use cellpace_base::{Span, Time};
use cellpace_lab::PathText;
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{DuplexSpec, PATH_FIELDS, PathField, TraceSpec};
use cellpace_sim::Scenario;
use clap::error::Error;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::error::{CommandError, named};
use crate::options::{seed, span};

/// An option for each of [`PATH_FIELDS`], or for those of the bottleneck alone.
#[derive(Debug, Clone)]
pub(crate) struct FieldOptions<const ALL: bool>(PathText);

/// The options of a bottleneck.
const OF_BOTTLENECK: [&str; 3] = ["rtt", "queue", "loss"];

impl<const ALL: bool> FieldOptions<ALL> {
    fn fields() -> impl Iterator<Item = &'static PathField> {
        let is_there = |field: &&PathField| ALL || OF_BOTTLENECK.contains(&field.name);
        PATH_FIELDS.iter().filter(|field| !field.help.is_empty()).filter(is_there)
    }

    fn argument(field: &'static PathField) -> Arg {
        let action = if field.is_repeatable { ArgAction::Append } else { ArgAction::Set };
        let arg = Arg::new(field.name).long(field.option()).value_name(field.value_name);
        arg.help(field.help).help_heading("Path").action(action).default_values(field.default)
    }
}

impl<const ALL: bool> Args for FieldOptions<ALL> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::fields().map(Self::argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for FieldOptions<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = Self(PathText::default());
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for field in Self::fields() {
            // A default would replace what a recording has.
            let is_given = matches.value_source(field.name) != Some(ValueSource::DefaultValue);
            let texts = matches.get_many::<String>(field.name).filter(|_| is_given);
            let texts = texts.into_iter().flatten().cloned().collect();
            self.0.set(field.name, texts).expect("an option for each field, and no other");
        }
        Ok(())
    }
}

/// Options of the bottleneck and of the run, for every command that drives one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
pub(crate) struct BottleneckOptions<const ALL: bool> {
    #[command(flatten)]
    path: FieldOptions<ALL>,
    /// Length of the run [default: the trace's, at most 300s; 60s where it has no end]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// Seed of everything random: same seed, same command, same bytes out
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    pub(crate) seed: u64,
}

impl<const ALL: bool> BottleneckOptions<ALL> {
    /// A scenario with these options, but no trace, duration or flow yet.
    pub(crate) fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, CommandError> {
        Ok(Scenario { seed: self.seed, ..self.path.0.conditions(files)? })
    }

    /// What gives rate, RTT and loss at once, as it was written.
    pub(crate) fn whole(&self) -> Option<&str> {
        self.path.0.texts("path").first().map(String::as_str)
    }

    /// The bottleneck as it was written.
    pub(crate) fn words(&self) -> String {
        let words = |field: &str| format!("--{field} {}", self.path.0.text(field));
        OF_BOTTLENECK.map(words).join(" ")
    }
}

/// Options of the path.
#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
pub(crate) struct PathOptions {
    #[command(flatten)]
    pub(crate) link: BottleneckOptions<true>,
    /// Begin the traces of both directions here; what comes before is played when they repeat
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s", hide_default_value = true)]
    pub(crate) from: Span,
    /// Left out of the figures at the start [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) skip: Option<Span>,
}

/// A link has the handovers of a radio layer for a day.
const LONGEST_LINK: Time = Time::from_secs(86_400);

/// Both directions of a path, and when it counts.
pub(crate) struct Directions {
    pub(crate) link: DuplexSpec,
    pub(crate) duration: Option<Span>,
    pub(crate) skip: Span,
}

impl Directions {
    /// The RTT without queueing, or its mean.
    pub(crate) fn rtt(&self) -> Span {
        self.link.rtt().mean()
    }
}

impl PathOptions {
    /// What a link in real time needs: both directions of the path, the trace unlimited unless
    /// one is given.
    pub(crate) fn directions(
        &self,
        trace: Option<&str>,
        files: &mut TraceFiles<'_>,
    ) -> Result<Directions, CommandError> {
        let Scenario { mut link, .. } = self.conditions(files)?;
        let length = self.link.duration.unwrap_or(Span::ZERO);
        let whole = link.down.trace.take().filter(|_| self.link.whole().is_some());
        if trace.is_some() && whole.is_some() {
            let why = "--path: has the trace as well; leave one of the two out";
            return Err(CommandError::usage(why));
        }
        let trace = trace.map(|trace| named("--trace", TraceSpec::parse(trace, files)));
        if let Some(trace) = trace.transpose()?.or(whole) {
            let drawn = trace.starting_at(self.from).drawn(self.link.seed, length);
            let mut handovers = link.down.handovers.clone();
            handovers.extend(drawn.handovers(LONGEST_LINK));
            link.set_handovers(handovers);
            link.down.trace = Some(drawn);
        }
        link.check_delivers()?;
        Ok(Directions { link, duration: self.link.duration, skip: self.skip.unwrap_or(Span::ZERO) })
    }

    /// A scenario with these options, but no trace, duration or flow yet.
    pub(crate) fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, CommandError> {
        let mut scenario = self.link.conditions(files)?;
        scenario.start_traces_at(self.from);
        scenario.skip = self.skip.unwrap_or(scenario.skip);
        Ok(scenario)
    }
}
