//! What the commands that put TCP connections under a controller print and write.

use std::io::Write;
use std::path::{Path, PathBuf};

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_lab::LabError;
use cellpace_live::{MetricFamily, MetricKind, MoreMetrics, metric_family};
use cellpace_run::{
    ConnectionLog, ConnectionSamples, EventWriter, KeptConnections, LoggingCommand,
    PlainConnections, PlainReason,
};
use clap::Args;

use crate::dashboard::{DashboardOptions, OpenDashboard};
use crate::error::CommandError;
use crate::line_writer::{LineWriter, begin_service, dropped_lines, serve, service_stdout};
use crate::options::{Verbosity, span};
use crate::output::{
    OutputOption, append, check_files, command_line, complain, event_writer, is_stdout,
    keep_inputs, refuse_stdout,
};
use crate::report::write_report;

/// Options for what is printed and written of connections.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ConnectionOutputs {
    /// Write the figures of each connection that ended as a line of JSON (`-`: standard output, and
    /// nothing else there)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one HTML page of all connections, which works offline
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// How often each connection's state is in them, with TCP's own window: 10ms or more
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    events_every: Span,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

fn interval(text: &str) -> Result<Span, String> {
    const LEAST: Span = Span::from_millis(10);
    let every = span(text)?;
    if every < LEAST { Err(format!("the least is {LEAST}")) } else { Ok(every) }
}

/// The outputs while the command runs.
pub(crate) struct OpenOutputs<'a> {
    events: Option<(EventWriter, LineWriter)>,
    json: Option<LineWriter>,
    /// Connections that stayed without a controller.
    pub(crate) plain: PlainConnections,
    page: Option<(&'a Path, KeptConnections)>,
    dashboard: Option<OpenDashboard>,
    verbosity: Verbosity,
}

impl ConnectionOutputs {
    /// Whether the figures go to standard output.
    pub(crate) fn is_json_on_stdout(&self) -> bool {
        self.json.as_deref().is_some_and(is_stdout)
    }

    /// Whether anything is written that names the controller of all connections.
    pub(crate) fn name_one_controller(&self) -> bool {
        self.json.is_some() || self.report.is_some() || self.events.is_some()
    }

    /// The option that wants controllers' decisions, where it was given.
    pub(crate) fn needs_decisions(&self) -> Option<&'static str> {
        self.events.as_ref().map(|_| "--events")
    }

    /// Refuses what cannot be written before anything starts; the command also writes `others` and reads
    /// `inputs`.
    pub(crate) fn check_beside(
        &self,
        others: &[OutputOption<'_>],
        inputs: &[&Path],
    ) -> Result<(), CommandError> {
        let (json, report) = (self.json.as_deref(), self.report.as_deref());
        let events = self.events.as_deref();
        let files = [("--json", json), ("--report", report), ("--events", events)];
        let files = [&files, others].concat();
        check_files(&files)?;
        keep_inputs(&files, inputs.iter().copied())?;
        self.dashboard.check()?;
        // Standard output is the program's, or that of figures as they come.
        refuse_stdout("--report", report, "a page")
    }

    /// Opens the outputs. Starts threads if controllers' decisions are written, or connections
    /// shown; `more_metrics` are the command's own.
    pub(crate) fn open(
        &self,
        command: LoggingCommand,
        cc: &ControllerSpec,
        more_metrics: Option<MoreMetrics>,
    ) -> Result<(ConnectionLog, OpenOutputs<'_>), CommandError> {
        // `run` passes signals on to its program, and waits for them in its own way.
        match command {
            LoggingCommand::Run => serve().map_err(CommandError::failed)?,
            LoggingCommand::Attach | LoggingCommand::Proxy => begin_service()?,
        }
        let program = format!("cellpace {}", command.name());
        let (name, subject) = (command.name(), cc.to_string());
        let plain = PlainConnections::default();
        let counts = plain.clone();
        let more_metrics: MoreMetrics = Box::new(move || {
            let mut families = more_metrics.as_ref().map_or_else(Vec::new, |more| more());
            families.extend([dropped_lines(name), uncontrolled(name, &counts)]);
            families
        });
        let dashboard = self.dashboard.open(name, subject, Some(more_metrics), self.verbosity)?;
        let page = self.report.as_deref().map(|path| (path, KeptConnections::default()));
        let events = event_writer(self.events.as_deref(), &program, cc, self.events_every)?;
        let json = self.open_json()?;
        let log = ConnectionLog {
            command,
            command_line: command_line(),
            // The proxy has lines of its own, of both sides of a connection.
            lines: (self.verbosity.is_verbose() && command != LoggingCommand::Proxy)
                .then_some(complain),
            json: json.clone().map(|json| Box::new(json) as Box<dyn Write + Send>),
            kept: page.as_ref().map(|(_, kept)| kept.clone()),
            events: events.as_ref().map(|(events, _)| events.flows()),
            live: dashboard.as_ref().map(OpenDashboard::connections),
            samples: ConnectionSamples::default(),
            plain: plain.clone(),
        };
        Ok((log, OpenOutputs { events, json, plain, page, dashboard, verbosity: self.verbosity }))
    }

    fn open_json(&self) -> Result<Option<LineWriter>, CommandError> {
        let Some(path) = &self.json else { return Ok(None) };
        match is_stdout(path) {
            true => Ok(service_stdout().cloned()),
            false => append("--json", path, Vec::new()).map(Some),
        }
    }
}

impl OpenOutputs<'_> {
    /// Completes what is written at the end, once all connections were reported.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        if let Some(dashboard) = self.dashboard {
            dashboard.finish();
        }
        for (reason, count) in self.plain.list() {
            let text =
                format!("{} stayed without a controller: {}", connections(count), reason.text());
            self.verbosity.note(&text);
        }
        let events = self.events.map_or(Ok(None), |(events, lines)| {
            events.finish()?;
            Ok::<_, LabError>(lines.finish())
        });
        let json = self.json.and_then(|json| json.finish());
        let page = self.page.map_or(Ok(()), |(path, kept)| write_page(path, &kept, self.verbosity));
        let events = events.map_err(|error| CommandError::failed(format!("--events: {error}")))?;
        json.or(events).map_or(page, |failed| Err(CommandError::failed(failed)))
    }
}

/// A number of connections in words.
pub(crate) fn connections(count: u64) -> String {
    if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") }
}

/// Connections without a controller by reason, for Prometheus: zeros, too, so that an increase shows.
fn uncontrolled(command: &str, plain: &PlainConnections) -> MetricFamily {
    let samples = PlainReason::ALL.iter().map(|reason| {
        (vec![("command", command), ("reason", reason.word())], plain.count(*reason) as f64)
    });
    metric_family(
        "cellpace_uncontrolled_total",
        MetricKind::Counter,
        "Connections that stayed without a controller.",
        samples,
    )
}

/// Writes the page of the connections that have ended.
fn write_page(
    path: &Path,
    kept: &KeptConnections,
    verbosity: Verbosity,
) -> Result<(), CommandError> {
    let (text, omitted) = kept.take();
    if text.is_empty() {
        verbosity.note("warning: no connection was under the controller, so there is no page");
        return Ok(());
    }
    if omitted > 0 {
        let text =
            format!("warning: the page lacks the last {omitted} connections; --json has all");
        verbosity.note(&text);
    }
    write_report(path, &[&text])
}
