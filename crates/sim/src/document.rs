//! Scenarios written as TOML.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use cellpace_base::{
    Span, SpanDistribution, Time, parse_bytes, parse_fraction, parse_span, parse_window,
};
use cellpace_cc::{ControllerSpec, MAX_FILE_BYTES, RtoRule, SpecError};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{
    DuplexSpec, Handover, HandoverFailure, HandoverPlan, PATH_FIELDS, PathField, TraceSpec,
};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::scenario::OWN_CC;
use crate::{
    Bottleneck, CellSpec, ChainSpec, FlowSpec, FlowTraffic, HostBuffers, MAX_SEGMENTS, OnOffFiles,
    PingSpec, ProxySpec, Scenario, Scheduler, SegmentSpec, SimError, SmallQueue, TransferSpec,
    UserSpec, VideoSpec,
};

/// Flows that one scenario may have.
const MAX_FLOWS: usize = 10_000;

/// The fields of a scenario beside [`PATH_FIELDS`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioToml {
    from: Option<Spanned<String>>,
    send_jitter: Option<Spanned<String>>,
    acks: Option<Spanned<String>>,
    rto_rule: Option<Spanned<String>>,
    duration: Option<Spanned<String>>,
    skip: Option<Spanned<String>>,
    bin: Option<Spanned<String>>,
    seed: Option<u64>,
    bottleneck: Option<Spanned<String>>,
    sndbuf: Option<Spanned<String>>,
    tsq: Option<Spanned<String>>,
    cell: Option<Spanned<CellToml>>,
    #[serde(default)]
    user: Vec<Spanned<UserToml>>,
    pep: Option<Spanned<ProxyToml>>,
    #[serde(default)]
    handover: Vec<Spanned<HandoverToml>>,
    #[serde(default)]
    ping: Vec<PingToml>,
    #[serde(default)]
    flow: Vec<Spanned<FlowToml>>,
}

/// The fields of one link as they are written.
type LinkToml = Vec<(&'static PathField, Spanned<String>)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyToml {
    cc: Spanned<String>,
    buffer: Option<Spanned<String>>,
    open: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PingToml {
    every: Option<Spanned<String>>,
    size: Option<Spanned<String>>,
    user: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandoverToml {
    at: Option<Spanned<String>>,
    every: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    forward_delay: Option<Spanned<String>>,
    reorder: Option<Spanned<bool>>,
    length: Option<Spanned<String>>,
    rtt: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    queue: Option<Spanned<String>>,
    failure: Option<Spanned<FailureToml>>,
    signal: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "a table such as { share = \"2%\", outage = \"1s\" }")]
struct FailureToml {
    share: Option<Spanned<String>>,
    outage: Option<Spanned<String>>,
    buffer: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellToml {
    tti: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
    capacity: Option<Spanned<String>>,
    queue: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserToml {
    name: Spanned<String>,
    trace: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowToml {
    cc: Option<Spanned<String>>,
    udp: Option<Spanned<String>>,
    count: Option<Spanned<u64>>,
    start: Option<Spanned<String>>,
    stop: Option<Spanned<String>>,
    rtt: Option<Spanned<String>>,
    onoff: Option<Spanned<OnOffToml>>,
    reverse: Option<Spanned<String>>,
    stack: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    transfer: Option<Spanned<BTreeMap<String, toml::Value>>>,
    video: Option<Spanned<BTreeMap<String, toml::Value>>>,
    stagger: Option<Spanned<String>>,
    #[serde(default)]
    path: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnOffToml {
    mean: Option<Spanned<String>>,
    deviation: Option<Spanned<String>>,
    max: Option<Spanned<String>>,
    off: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
}

/// Where errors are: a text and its file's name.
struct TomlText<'a> {
    file: &'a str,
    text: &'a str,
}

impl Scenario {
    /// Reads a scenario from TOML; what it leaves out is as in [`Scenario::default`], and the
    /// duration is that of the trace, at most 300 s, where the trace has one. `name` stands in
    /// errors, `files` supplies the traces it names.
    ///
    /// ```toml
    /// trace = "lte-driving"       # or a file, or constant:12mbit, ...
    /// rtt = "40ms"
    /// queue = "droptail:2MB"
    /// loss = "0.1%"
    /// jitter = "harq:bler=10%,rtt=8ms"
    /// send_jitter = "100%"        # of a packet's time, where flows share the link
    /// impair = "reorder=1%/5ms"   # and duplicate=, corrupt=; uplink_impair for the way back
    /// duration = "60s"
    ///
    /// [[flow]]
    /// cc = "verus"
    /// count = 3
    ///
    /// [[flow]]
    /// cc = "cubic"
    /// start = "20s"
    /// onoff = { mean = "4MB", off = "10s" }
    ///
    /// [[flow]]
    /// cc = "bbr"
    /// count = 9
    /// stagger = "2s"              # one every 2 s; or uniform:0s..1s, at random
    /// transfer = { size = "20MB", count = 30, gap = "1s" } # see TransferSpec
    ///
    /// [[flow]]
    /// cc = "scream"
    /// video = { fps = 30, max = "20mbit" }    # see VideoSpec
    ///
    /// [[flow]]
    /// udp = "2mbit"
    ///
    /// [[handover]]
    /// at = "30s"
    /// length = "200ms"            # of the interruption; 50ms if left out
    /// rtt = "80ms"                # of the new path; as before if left out
    /// rate = "x0.6"               # what the trace offers afterwards; as before if left out
    /// queue = "lost"              # or "kept", as if left out
    /// failure = { share = "2%", outage = "uniform:1s..3s" }   # some are radio link failures
    /// signal = false              # controllers are not told; they are if left out
    /// ```
    ///
    /// # Errors
    /// When the text is no TOML, has unknown fields, or a value does not read: the error names
    /// file, line and field.
    pub fn from_toml(name: &str, text: &str, files: &mut TraceFiles<'_>) -> Result<Self, SimError> {
        let place = TomlText { file: name, text };
        let mut table = DeTable::parse(text).map_err(|error| place.syntax(&error))?;
        // Taken out first: the rest of the document refuses fields that it does not know.
        let mut written = place.link_fields(table.get_mut())?;
        let links = place.links(table.get_mut())?;
        let document = ScenarioToml::deserialize(toml::Deserializer::from(table))
            .map_err(|error| place.syntax(&error))?;
        let chain = place.chain(&mut written, links, document.pep.as_ref(), files)?;
        let (handovers, handover_plans) = place.handovers(&document.handover)?;
        let mut scenario = Self {
            flows: place.flows(&document.flow, files)?,
            pings: document.ping.iter().map(|ping| place.ping(ping)).collect::<Result<_, _>>()?,
            handover_plans,
            chain,
            ..Self::default()
        };
        // The default has a trace, but a scenario that names none is refused.
        scenario.link.down.trace = None;
        scenario.link.set_handovers(handovers);
        place.link(&written, &mut scenario.link, files)?;
        scenario.bottleneck = place.bottleneck(&document)?;
        scenario.cell = place.cell(&document, &scenario, files)?;
        if scenario.link.down.trace.is_none() {
            // Users with channels of their own leave nothing to share.
            let own = scenario.cell.as_ref().and_then(|cell| cell.users.first()?.trace.clone());
            scenario.link.down.trace = own;
        }
        if let Some(trace) = &scenario.link.down.trace {
            scenario.duration = trace.default_duration();
        }
        let mut from = Span::ZERO;
        // After all traces are read, as it shifts each of them.
        place.read(&document.from, "from", &mut from, parse_span)?;
        scenario.start_traces_at(from);
        place.read(&document.send_jitter, "send_jitter", &mut scenario.send_jitter, str::parse)?;
        place.read(&document.acks, "acks", &mut scenario.acks, str::parse)?;
        place.read(&document.rto_rule, "rto_rule", &mut scenario.rto_rule, rto_rule)?;
        place.read(&document.duration, "duration", &mut scenario.duration, parse_span)?;
        place.read(&document.skip, "skip", &mut scenario.skip, parse_span)?;
        place.read(&document.bin, "bin", &mut scenario.bin, parse_span)?;
        scenario.seed = document.seed.unwrap_or(scenario.seed);
        // What else is wrong is said first, of a scenario over any trace.
        let trace = scenario.link.down.trace.clone();
        // A missing trace would otherwise hide every other mistake in the scenario.
        scenario.link.down.trace.get_or_insert_default();
        let mut checked = scenario.check();
        scenario.link.down.trace = trace;
        checked = checked.and_then(|()| scenario.check()).and_then(|()| scenario.check_delivers());
        checked.map_err(|error| place.whole(&document, &written, error))?;
        Ok(scenario)
    }
}

/// Reads a controller such as `verus:r=2`, and the files that it names.
///
/// # Errors
/// When the text is no controller's, or a file is missing or not what the controller takes.
pub fn read_controller(
    text: &str,
    files: &mut TraceFiles<'_>,
) -> Result<ControllerSpec, SpecError> {
    ControllerSpec::parse(text, &mut |name| {
        // Bounded as models are: the file of `mdi:model=FILE` may be anything.
        files.bytes(name, MAX_FILE_BYTES).map_err(|error| error.to_string())
    })
}

impl TomlText<'_> {
    /// Reads one field into `target`, if it is there.
    fn read<T, E: Display>(
        &self,
        field: &Option<Spanned<String>>,
        name: &str,
        target: &mut T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<(), SimError> {
        let Some(written) = field else { return Ok(()) };
        *target =
            parse(written.get_ref()).map_err(|why| self.wrong(&written.span(), name, &why))?;
        Ok(())
    }

    /// Takes the fields of a link out of a table.
    fn link_fields(&self, table: &mut DeTable<'_>) -> Result<LinkToml, SimError> {
        let mut fields = Vec::new();
        for field in link_fields() {
            // Tables of this name are links.
            if table.get(field.name).is_some_and(|value| value.get_ref().is_table()) {
                continue;
            }
            let Some(value) = table.remove(field.name) else { continue };
            let text = Spanned::<String>::deserialize(toml::de::ValueDeserializer::from(value));
            fields.push((field, text.map_err(|error| self.syntax(&error))?));
        }
        // In the order of the file, so that errors name the first.
        fields.sort_by_key(|(_, text)| text.span().start);
        Ok(fields)
    }

    /// Takes `[path.NAME]` out of the scenario: links in series in the order of the file.
    fn links(
        &self,
        table: &mut DeTable<'_>,
    ) -> Result<Vec<(String, Range<usize>, LinkToml)>, SimError> {
        let Some(value) = table.remove("path") else { return Ok(Vec::new()) };
        let span = value.span();
        let why = "write a file's name, or a table for each link, such as [path.radio]";
        let DeValue::Table(tables) = value.into_inner() else {
            return Err(self.wrong(&span, "path", &why));
        };
        let mut links = Vec::new();
        for (name, value) in tables {
            let span = value.span();
            let DeValue::Table(mut fields) = value.into_inner() else {
                return Err(self.wrong(&span, "path", &why));
            };
            let written = self.link_fields(&mut fields)?;
            if let Some((unknown, _)) = fields.into_iter().next() {
                let names = path_names();
                let why = format!("unknown field `{}`, expected one of {names}", unknown.get_ref());
                return Err(self.at(unknown.span().start, why));
            }
            links.push((name.into_inner().into_owned(), span, written));
        }
        // TOML's tables have no order, but links in series do: that in which they are written.
        links.sort_by_key(|(_, span, _)| span.start);
        Ok(links)
    }

    /// Reads links in series and the proxy. The last link moves to where that of a scenario with one
    /// link stands.
    fn chain(
        &self,
        written: &mut LinkToml,
        mut links: Vec<(String, Range<usize>, LinkToml)>,
        pep: Option<&Spanned<ProxyToml>>,
        files: &mut TraceFiles<'_>,
    ) -> Result<Option<ChainSpec>, SimError> {
        if let Some((name, span, _)) = links.get(MAX_SEGMENTS) {
            let why = format!("is one link too many; the most in series are {MAX_SEGMENTS}");
            return Err(self.wrong(span, &format!("path.{name}"), &why));
        }
        let last = links.pop();
        // `links` is without the last one here: empty means that there is one link or none.
        if let (true, Some(pep)) = (links.is_empty(), pep) {
            let why = "a proxy stands between two links: write [path.NAME] for each of them";
            return Err(self.wrong(&pep.span(), "pep", &why));
        }
        let Some((last, _, fields)) = last else { return Ok(None) };
        if let Some((field, text)) = written.first() {
            let why = "belongs into a [path.NAME] where there are such";
            return Err(self.wrong(&text.span(), field.name, &why));
        }
        *written = fields;
        if links.is_empty() {
            return Ok(None);
        }
        let proxy = pep.map(|pep| self.proxy(pep.get_ref(), files)).transpose()?;
        let mut before = Vec::new();
        for (name, _, fields) in links {
            let mut link = DuplexSpec::default();
            self.link(&fields, &mut link, files)?;
            before.push(SegmentSpec { name, link });
        }
        Ok(Some(ChainSpec { before, last, proxy }))
    }

    /// Reads the fields of a link.
    fn link(
        &self,
        written: &LinkToml,
        link: &mut DuplexSpec,
        files: &mut TraceFiles<'_>,
    ) -> Result<(), SimError> {
        // A recording first: what is written beside it counts.
        let (whole, others): (Vec<_>, Vec<_>) =
            written.iter().partition(|(field, _)| field.name == "path");
        for (field, text) in whole.into_iter().chain(others) {
            let read = field.read(link, text.get_ref(), files);
            read.map_err(|error| self.wrong(&text.span(), field.name, &error.why))?;
        }
        Ok(())
    }

    fn proxy(&self, fields: &ProxyToml, files: &mut TraceFiles<'_>) -> Result<ProxySpec, SimError> {
        let cc = self.value(&fields.cc, "cc", |text| read_controller(text, files))?;
        let mut proxy = ProxySpec::new(cc);
        self.read(&fields.buffer, "buffer", &mut proxy.buffer, |text| match text {
            "infinite" => Ok(None),
            text => parse_window(text).map(Some),
        })?;
        self.read(&fields.open, "open", &mut proxy.is_early, |text| match text {
            "late" => Ok(false),
            "early" => Ok(true),
            _ => Err(format!("`{text}` is neither `late` nor `early`")),
        })?;
        Ok(proxy)
    }

    fn flows(
        &self,
        tables: &[Spanned<FlowToml>],
        files: &mut TraceFiles<'_>,
    ) -> Result<Vec<FlowSpec>, SimError> {
        let mut flows = Vec::new();
        for table in tables {
            let flow = self.flow(table, files)?;
            let count = table.get_ref().count.as_ref();
            let copies = count.map_or(1, |count| *count.get_ref());
            // Checked before the copies are made: `count` may be any number.
            let room = (MAX_FLOWS - flows.len()) as u64;
            if copies == 0 || copies > room {
                let span = count.map_or_else(|| table.span(), Spanned::span);
                let why = format!("{copies} flows; allowed: 1 to {MAX_FLOWS} in all");
                return Err(self.wrong(&span, "count", &why));
            }
            let stagger = self.stagger(table)?;
            flows.extend((0..copies).map(|copy| staggered(&flow, stagger, copy)));
        }
        Ok(flows)
    }

    fn flow(
        &self,
        table: &Spanned<FlowToml>,
        files: &mut TraceFiles<'_>,
    ) -> Result<FlowSpec, SimError> {
        let fields = table.get_ref();
        let own = fields.stack.as_ref().filter(|stack| stack.get_ref().contains(OWN_CC));
        let mut flow = match (&fields.cc, &fields.udp) {
            (Some(cc), _) if own.is_some() => {
                let why = "the stack has a controller of its own: leave one of the two out";
                return Err(self.wrong(&cc.span(), "cc", &why));
            }
            // Stands for the controller, which is not ours.
            (None, None) if own.is_some() => FlowSpec::bulk("fixed".parse()?),
            (Some(cc), None) => {
                FlowSpec::bulk(self.value(cc, "cc", |text| read_controller(text, files))?)
            }
            (None, Some(udp)) => FlowSpec::constant_rate(self.value(udp, "udp", str::parse)?),
            _ => {
                let why = "a flow has either `cc` (a controller) or `udp` (a rate)";
                return Err(self.wrong(&table.span(), "flow", &why));
            }
        };
        let at = |text: &str| parse_span(text).map(|span| Time::ZERO + span);
        self.read(&fields.start, "start", &mut flow.start, at)?;
        self.read(&fields.stop, "stop", &mut flow.stop, at)?;
        self.read(&fields.rtt, "rtt", &mut flow.rtt, |text| parse_span(text).map(Some))?;
        self.read(&fields.reverse, "reverse", &mut flow.reverse, |text| {
            read_controller(text, files).map(Some)
        })?;
        flow.stack = fields.stack.as_ref().map(|stack| stack.get_ref().clone());
        flow.user = fields.user.as_ref().map(|user| user.get_ref().clone());
        flow.path.clone_from(&fields.path);
        if let Some(onoff) = &fields.onoff {
            flow.traffic = FlowTraffic::OnOffFiles(self.onoff(onoff.get_ref())?);
        }
        if let Some(transfer) = &fields.transfer {
            if fields.onoff.is_some() {
                let why = "a flow has either `onoff` or `transfer`";
                return Err(self.wrong(&transfer.span(), "transfer", &why));
            }
            flow.traffic = FlowTraffic::Transfers(self.transfers(transfer, files)?);
        }
        if let Some(video) = &fields.video {
            if fields.onoff.is_some() || fields.transfer.is_some() {
                let why = "a flow has either `onoff`, `transfer` or `video`";
                return Err(self.wrong(&video.span(), "video", &why));
            }
            flow.traffic = FlowTraffic::Video(self.video(video)?);
        }
        let field = if flow.stop <= flow.start { fields.stop.as_ref() } else { None };
        let span = field.map_or_else(|| table.span(), Spanned::span);
        flow.check().map_err(|why| {
            self.wrong(&span, if field.is_some() { "stop" } else { "flow" }, &why)
        })?;
        Ok(flow)
    }

    fn bottleneck(&self, document: &ScenarioToml) -> Result<Bottleneck, SimError> {
        let mut is_sender = false;
        self.read(&document.bottleneck, "bottleneck", &mut is_sender, |text| match text {
            "network" => Ok(false),
            "sender" => Ok(true),
            _ => Err(format!("`{text}` is neither `network` nor `sender`")),
        })?;
        let mut buffers = HostBuffers::default();
        self.read(&document.sndbuf, "sndbuf", &mut buffers.sndbuf, parse_bytes)?;
        self.read(&document.tsq, "tsq", &mut buffers.tsq, |text| match text {
            "auto" => Ok(SmallQueue::Auto),
            _ => parse_bytes(text).map(SmallQueue::Bytes),
        })?;
        if is_sender {
            return Ok(Bottleneck::Sender(buffers));
        }
        for (name, field) in [("sndbuf", &document.sndbuf), ("tsq", &document.tsq)] {
            if let Some(written) = field {
                let why = "is for bottleneck = \"sender\"";
                return Err(self.wrong(&written.span(), name, &why));
            }
        }
        Ok(Bottleneck::Network)
    }

    fn cell(
        &self,
        document: &ScenarioToml,
        scenario: &Scenario,
        files: &mut TraceFiles<'_>,
    ) -> Result<Option<CellSpec>, SimError> {
        let Some(table) = &document.cell else {
            return match document.user.first() {
                Some(user) => Err(self.wrong(&user.span(), "user", &"needs a [cell]")),
                None => Ok(None),
            };
        };
        let fields = table.get_ref();
        let mut cell = CellSpec {
            tti: Span::from_millis(1),
            scheduler: Scheduler::ProportionalFair { window: Span::from_secs(1) },
            users: Vec::new(),
            queue: scenario.link.down.queue.clone(),
        };
        let mut is_shared = true;
        self.read(&fields.tti, "tti", &mut cell.tti, parse_span)?;
        self.read(&fields.scheduler, "scheduler", &mut cell.scheduler, str::parse)?;
        self.read(&fields.queue, "queue", &mut cell.queue, str::parse)?;
        self.read(&fields.capacity, "capacity", &mut is_shared, |text| match text {
            "shared" => Ok(true),
            "own" => Ok(false),
            _ => Err(format!("`{text}` is neither `shared` nor `own`")),
        })?;
        for user in &document.user {
            let UserToml { name, trace } = user.get_ref();
            if trace.is_some() == is_shared {
                let why = match is_shared {
                    true => "a user has a trace only where capacity = \"own\"",
                    false => "with capacity = \"own\" each user needs a trace",
                };
                return Err(self.wrong(&user.span(), "user", &why));
            }
            let mut own = None;
            self.read(trace, "trace", &mut own, |text| TraceSpec::parse(text, files).map(Some))?;
            cell.users.push(UserSpec { name: name.get_ref().clone(), trace: own });
        }
        cell.check().map_err(|why| self.wrong(&table.span(), "cell", &why))?;
        Ok(Some(cell))
    }

    fn stagger(&self, table: &Spanned<FlowToml>) -> Result<Option<SpanDistribution>, SimError> {
        let written = table.get_ref().stagger.as_ref();
        written.map(|written| self.value(written, "stagger", str::parse)).transpose()
    }

    fn transfers(
        &self,
        table: &Spanned<BTreeMap<String, toml::Value>>,
        files: &mut TraceFiles<'_>,
    ) -> Result<TransferSpec, SimError> {
        let fields: Vec<(&str, String)> = table
            .get_ref()
            .iter()
            .map(|(key, value)| (key.as_str(), written_value(value)))
            .collect();
        let has_size = table.get_ref().contains_key("size");
        let fields = fields.iter().map(|(key, value)| (*key, value.as_str()));
        let read = match has_size {
            true => TransferSpec::of_fields(fields, files),
            false => Err("`size` is missing; write, for example, size = \"20MB\"".to_owned()),
        };
        read.map_err(|why| self.wrong(&table.span(), "transfer", &why))
    }

    fn video(&self, table: &Spanned<BTreeMap<String, toml::Value>>) -> Result<VideoSpec, SimError> {
        let assignment =
            |(key, value): (&String, &toml::Value)| format!("{key}={}", written_value(value));
        let text = table.get_ref().iter().map(assignment).collect::<Vec<_>>().join(",");
        VideoSpec::read(&text).map_err(|why| self.wrong(&table.span(), "video", &why))
    }

    fn ping(&self, fields: &PingToml) -> Result<PingSpec, SimError> {
        let mut ping = PingSpec { user: fields.user.clone(), ..PingSpec::default() };
        self.read(&fields.every, "every", &mut ping.every, parse_span)?;
        self.read(&fields.size, "size", &mut ping.size, |text| {
            let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
            u32::try_from(bytes).map_err(|_| format!("`{text}` is more than a packet has"))
        })?;
        Ok(ping)
    }

    /// Those at fixed times, and those that are drawn.
    fn handovers(
        &self,
        tables: &[Spanned<HandoverToml>],
    ) -> Result<(Vec<Handover>, Vec<HandoverPlan>), SimError> {
        let (mut handovers, mut plans) = (Vec::new(), Vec::new());
        for table in tables {
            let plan = self.handover_plan(table)?;
            // Only fixed ones can be checked for their order while they are read.
            let (Some(at), Some(fixed)) = (&table.get_ref().at, plan.as_fixed()) else {
                plans.push(plan);
                continue;
            };
            handovers.push(fixed);
            Handover::check_order(&handovers).map_err(|why| self.wrong(&at.span(), "at", &why))?;
        }
        Ok((handovers, plans))
    }

    fn handover_plan(&self, table: &Spanned<HandoverToml>) -> Result<HandoverPlan, SimError> {
        let fields = table.get_ref();
        let mut plan = HandoverPlan::at(Time::ZERO);
        plan.signal = fields.signal.unwrap_or(plan.signal);
        let at = |text: &str| parse_span(text).map(|span| Time::ZERO + span);
        match (&fields.at, &fields.every) {
            (Some(_), None) => self.read(&fields.at, "at", &mut plan.from, at)?,
            (None, Some(_)) => {
                self.read(&fields.every, "every", &mut plan.every, |text| text.parse().map(Some))?;
                self.read(&fields.from, "from", &mut plan.from, at)?;
            }
            _ => {
                let why = "either `at` (once) or `every` (again and again)";
                return Err(self.wrong(&table.span(), "handover", &why));
            }
        }
        self.read(&fields.length, "length", &mut plan.length, str::parse)?;
        self.read(&fields.forward_delay, "forward_delay", &mut plan.forward_delay, parse_span)?;
        self.read(&fields.rtt, "rtt", &mut plan.rtt, |text| parse_span(text).map(Some))?;
        self.read(&fields.queue, "queue", &mut plan.queue_lost, |text| match text {
            "lost" => Ok(true),
            "kept" => Ok(false),
            _ => Err(format!("`{text}` is neither `kept` nor `lost`")),
        })?;
        self.read(&fields.rate, "rate", &mut plan.rate, |text| text.parse().map(Some))?;
        if let Some(reorder) = fields.reorder.as_ref().filter(|reorder| *reorder.get_ref()) {
            if plan.queue_lost || plan.forward_delay.is_zero() {
                let why = "only what is forwarded can be overtaken: it needs a `forward_delay`, \
                           and a queue that is not lost";
                return Err(self.wrong(&reorder.span(), "reorder", &why));
            }
            plan.reorder = true;
        }
        plan.failure = self.handover_failure(fields.failure.as_ref())?;
        Ok(plan)
    }

    fn handover_failure(
        &self,
        table: Option<&Spanned<FailureToml>>,
    ) -> Result<Option<HandoverFailure>, SimError> {
        let Some(table) = table else { return Ok(None) };
        let fields = table.get_ref();
        let (Some(_), Some(_)) = (&fields.share, &fields.outage) else {
            let why = "needs `share` and `outage`: { share = \"2%\", outage = \"uniform:1s..3s\" }";
            return Err(self.wrong(&table.span(), "failure", &why));
        };
        let outage = Span::ZERO.into();
        let mut failure = HandoverFailure { share: 0.0, outage, queue_lost: true };
        self.read(&fields.share, "share", &mut failure.share, parse_fraction)?;
        self.read(&fields.outage, "outage", &mut failure.outage, str::parse)?;
        self.read(&fields.buffer, "buffer", &mut failure.queue_lost, |text| match text {
            "lose" => Ok(true),
            "keep" => Ok(false),
            _ => Err(format!("`{text}` is neither `keep` nor `lose`")),
        })?;
        Ok(Some(failure))
    }

    fn onoff(&self, fields: &OnOffToml) -> Result<OnOffFiles, SimError> {
        let mut onoff = OnOffFiles::default();
        let bytes = |text: &str| parse_bytes(text).map(|bytes| bytes as f64);
        self.read(&fields.mean, "mean", &mut onoff.mean, bytes)?;
        self.read(&fields.deviation, "deviation", &mut onoff.deviation, bytes)?;
        self.read(&fields.max, "max", &mut onoff.max, bytes)?;
        self.read(&fields.off, "off", &mut onoff.off, parse_span)?;
        self.read(&fields.rate, "rate", &mut onoff.rate, |text| text.parse().map(Some))?;
        Ok(onoff)
    }

    fn value<T, E: Display>(
        &self,
        written: &Spanned<String>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, SimError> {
        parse(written.get_ref()).map_err(|why| self.wrong(&written.span(), name, &why))
    }

    /// The scenario does not fit together: the place is that of the field that is wrong, or of the
    /// first one written of those that the reason speaks of.
    fn whole(&self, document: &ScenarioToml, written: &LinkToml, error: SimError) -> SimError {
        let (name, why) = match error {
            SimError::Invalid(reason) => ("", reason),
            SimError::Field(error) => (error.field, error.why),
            other => return other,
        };
        let times =
            [("skip", &document.skip), ("duration", &document.duration), ("bin", &document.bin)];
        let times = times.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        let of_link = written.iter().map(|(field, text)| (field.name, text));
        let of_reason = times.clone().filter(|(time, _)| why.contains(time));
        let mut fields = of_link.chain(times).filter(|(field, _)| *field == name).chain(of_reason);
        match fields.next() {
            Some((name, text)) => self.wrong(&text.span(), name, &why),
            None if name == "trace" => SimError::Invalid(format!("{}: trace: {why}", self.file)),
            None => SimError::Invalid(format!("{}: {why}", self.file)),
        }
    }

    fn wrong(&self, span: &Range<usize>, field: &str, why: &dyn Display) -> SimError {
        self.at(span.start, format!("{field}: {why}"))
    }

    fn at(&self, offset: usize, reason: String) -> SimError {
        SimError::Toml { file: self.file.to_owned(), line: self.line(offset), reason }
    }

    fn syntax(&self, error: &toml::de::Error) -> SimError {
        // Its message can have several lines; the first names the mistake.
        let reason = error.message().lines().next().unwrap_or_default();
        let start = error.span().map_or(0, |span| span.start);
        let reason = match self.key_before(start) {
            Some(key) => {
                let hint = unit_hint(key, reason).unwrap_or_else(|| plain(key, reason));
                format!("{key}: {hint}")
            }
            None if reason == "invalid type: map, expected a sequence" => {
                "there may be several: write two brackets, as in [[flow]]".to_owned()
            }
            None => with_path_fields(reason),
        };
        self.at(start, reason)
    }

    /// The key of the value that begins at `offset`, if one stands in front of it on its line.
    fn key_before(&self, offset: usize) -> Option<&str> {
        let before = self.text.get(..offset)?.rsplit('\n').next()?;
        let key = before.trim_end().strip_suffix('=')?.trim_end();
        let key = key.rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).next()?;
        (!key.is_empty()).then_some(key)
    }

    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// Copy number `copy` of a flow whose copies start one after the other, or at random.
fn staggered(flow: &FlowSpec, stagger: Option<SpanDistribution>, copy: u64) -> FlowSpec {
    let mut flow = flow.clone();
    match stagger.map(|stagger| stagger.as_constant().ok_or(stagger)) {
        Some(Ok(interval)) => flow.start += interval * copy,
        Some(Err(drawn)) => flow.start_after = Some(drawn),
        None => {}
    }
    flow
}

fn rto_rule(text: &str) -> Result<RtoRule, String> {
    match text {
        "rfc6298" => Ok(RtoRule::Rfc6298),
        "linux" => Ok(RtoRule::Linux),
        _ => Err(format!("`{text}` is neither `rfc6298` nor `linux`")),
    }
}

/// The text that a value of TOML stands for in the written form of a transfer.
fn written_value(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => {
            values.iter().map(written_value).collect::<Vec<_>>().join("+")
        }
        other => other.to_string(),
    }
}

/// Adds the fields of the path to those that the parser knows at the top of a scenario.
fn with_path_fields(reason: &str) -> String {
    let own = "expected one of `from`, ";
    reason.replacen(own, &format!("expected one of {}, `from`, ", path_names()), 1)
}

/// The fields of a link whose values are texts: handovers are tables of their own.
fn link_fields() -> impl Iterator<Item = &'static PathField> {
    PATH_FIELDS.iter().filter(|field| field.name != "handover")
}

fn path_names() -> String {
    let names = link_fields().map(|field| field.name);
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// What to write in place of a bare number, if that is what is wrong with the value of `key`.
fn unit_hint(key: &str, reason: &str) -> Option<String> {
    let kinds = ["invalid type: integer `", "invalid type: floating point `"];
    let number = kinds.iter().find_map(|kind| reason.strip_prefix(kind))?;
    let number = number.strip_suffix("`, expected a string")?;
    let unit = match key {
        "length" | "tti" => "ms",
        "duration" | "skip" | "from" | "start" | "stop" | "at" | "every" | "off" | "bin" => "s",
        "udp" | "rate" => "mbit",
        "sndbuf" | "tsq" | "size" => "B",
        "mean" | "deviation" | "max" | "buffer" => "MB",
        _ => {
            let example = PathField::find(key)?.example;
            let unit = example.trim_start_matches(|c: char| c.is_ascii_digit());
            Some(unit).filter(|unit| unit.len() < example.len() && !unit.contains('/'))?
        }
    };
    Some(format!("{number} should have a unit and quotes: {key} = \"{number}{unit}\""))
}

/// What is wrong with the value of `key`, in words of TOML and not of Rust.
fn plain(key: &str, reason: &str) -> String {
    let value = reason.split(['`', '"']).nth(1).unwrap_or_default();
    match reason {
        _ if reason.ends_with("expected a string") => {
            format!("{value} should be text in quotes: {key} = \"...\"")
        }
        _ if reason.ends_with("expected u64") => {
            format!("{value} should be a whole number from 0, without quotes")
        }
        _ if reason.ends_with("expected a boolean") => {
            format!("{value} should be true or false, without quotes")
        }
        _ if reason.ends_with("expected a map") && matches!(key, "video" | "transfer") => {
            let example = if key == "video" { "fps = 30" } else { "size = \"20MB\"" };
            format!("write a table, such as {key} = {{ {example} }}")
        }
        _ if reason.ends_with("expected struct OnOffToml") => {
            format!("write a table: {key} = {{ mean = \"4MB\", off = \"10s\" }}")
        }
        _ => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scenario, SimError> {
        Scenario::from_toml("s.toml", text, &mut TraceFiles::none())
    }

    fn error_of(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn both_traces_begin_at_from() {
        let text = "trace = 'lte-driving'\nuplink = 'constant:1mbit'\nfrom = '1min'\n[[flow]]\ncc = 'fixed'\n";
        let scenario = read(text).unwrap();
        assert_eq!(scenario.trace().to_string(), "lte-driving from 60s");
        assert_eq!(scenario.link.up.trace.unwrap().to_string(), "constant:1mbit from 60s");
        assert_eq!(scenario.duration, Span::from_secs(300));
    }

    #[test]
    fn a_scenario_is_read_whole() {
        let scenario = read(
            "trace = 'constant:60mbit'\nrtt = '20ms'\nqueue = 'codel'\nloss = '1%'\nuplink_loss = 'ge:p=2%'\n\
             impair = 'reorder=1%/5ms'\nuplink_impair = 'duplicate=2%'\n\
             acks = 'delayed:40ms'\nduration = '90s'\nskip = '1s'\nseed = 7\n\
             [[flow]]\ncc = 'fixed:cwnd=9pkts'\ncount = 3\nstart = '10s'\nstop = '1min'\n\
             [[flow]]\ncc = 'fixed'\nonoff = { mean = '2MB', off = '3s', rate = '4mbit' }\n\
             [[flow]]\nudp = '5mbit'\nrtt = '0s'\n\
             [[handover]]\nat = '20s'\nlength = '1s'\nqueue = 'lost'\n[[handover]]\nat = '30s'\n",
        )
        .unwrap();
        assert_eq!(scenario.flows.len(), 5);
        assert_eq!(scenario.flows[2].start, Time::from_secs(10));
        assert_eq!(scenario.flows[2].stop, Time::from_secs(60));
        assert_eq!(scenario.flows[4].name(), "udp:5mbit");
        assert_eq!(scenario.seed, 7);
        let handovers: Vec<_> = scenario.handovers().iter().map(Handover::to_string).collect();
        assert_eq!(handovers, ["20s/1s/lost", "30s/50ms"]);
        assert_eq!(scenario.link.down.loss.to_string(), "1%");
        assert_eq!(scenario.link.down.impair.to_string(), "reorder=1%/5ms");
        assert_eq!(scenario.link.up.impair.to_string(), "duplicate=2%");
        assert_eq!(Ok(&scenario.link.up.loss), "ge:p=2%".parse().as_ref());
        assert_eq!(scenario.duration, Span::from_secs(90));
        let FlowTraffic::OnOffFiles(onoff) = &scenario.flows[3].traffic else {
            panic!("not ON/OFF")
        };
        assert_eq!((onoff.mean, onoff.off), (2e6, Span::from_secs(3)));
    }

    #[test]
    fn transfers_and_staggered_starts_are_read() {
        let scenario = read(
            "trace = 'constant:60mbit'\nseed = 7\n\
             [[flow]]\ncc = 'cubic'\ncount = 3\nstart = '1s'\nstagger = '2s'\n\
             transfer = { size = ['10kB', '1MB'], count = 720, every = '30s', handshake = true, tls = 1 }\n\
             [[flow]]\ncc = 'cubic'\ncount = 2\nstagger = 'uniform:1s..4s'\n",
        )
        .unwrap();
        let starts = |scenario: &Scenario| -> Vec<f64> {
            scenario.drawn().flows.iter().map(|flow| flow.start.as_secs_f64()).collect()
        };
        let drawn = starts(&scenario);
        assert_eq!(drawn[..3], [1.0, 3.0, 5.0]);
        assert!(drawn[3..].iter().all(|start| (1.0..=4.0).contains(start)), "{drawn:?}");
        assert_ne!(drawn[3], drawn[4]);
        assert_eq!(drawn, starts(&scenario));
        assert_ne!(drawn, starts(&Scenario { seed: 8, ..scenario.clone() }));
        let FlowTraffic::Transfers(transfers) = &scenario.flows[2].traffic else { panic!() };
        let same = "10kB+1MB,count=720,every=30s,handshake=true,tls=1";
        assert_eq!(Ok(transfers), TransferSpec::parse(same, &mut TraceFiles::none()).as_ref());
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let cases = [
            ("\n\nspeed = 3\n", "s.toml:3: unknown field `speed`"),
            ("rtt = '40'\n", "s.toml:1: rtt: `40` needs a unit"),
            (
                "[[flow]]\ncc = 'fixd'\n",
                "s.toml:2: cc: there is no controller `fixd`; did you mean",
            ),
            ("[[flow]]\ncc = 'fixed:cwnd=0pkts'\n", "s.toml:2: cc: `fixed`: cwnd=0pkts is out of"),
            ("[[flow]]\ncc='fixed'\nstart='5s'\nstop='5s'\n", "s.toml:4: stop: it stops (at 5s)"),
            ("[[flow]]\ncc='fixed'\ncount=0\n", "s.toml:3: count: 0 flows"),
            ("[[flow]]\ncc='fixed'\ncount=99999999999\n", "s.toml:3: count: 99999999999 flows"),
            ("[[flow]]\ncc='fixed'\nudp='1mbit'\n", "s.toml:1: flow: a flow has either"),
            ("[[flow]]\nudp='0mbit'\n", "s.toml:1: flow: a rate of 0"),
            ("duration = '5s'\n", "s.toml: there is no flow"),
            (
                "\nduration = '0s'\n[[flow]]\ncc='fixed'\n",
                "s.toml:2: duration: the duration is 0 s",
            ),
            (
                "duration = '1s'\n[[flow]]\ncc='fixed'\n",
                "s.toml:1: duration: skip (2s) leaves nothing",
            ),
            (
                "uplink_loss = '0.02'\n[[flow]]\ncc='fixed'\n",
                "s.toml:1: uplink_loss: `0.02` needs a unit; write 2%",
            ),
            ("impair = 'reorder=1%'\n", "s.toml:1: impair: `reorder=1%` does not read"),
            ("[[handover]]\nat = '5'\n", "s.toml:2: at: `5` needs a unit"),
            ("[[handover]]\nlength = '5s'\n", "s.toml:1: handover: either `at`"),
            ("[[handover]]\nat='5s'\nevery='9s'\n", "s.toml:1: handover: either `at`"),
            ("[[handover]]\nevery='often'\n", "s.toml:2: every: `often`"),
            ("[[handover]]\nat='5s'\nqueue='gone'\n", "s.toml:3: queue: `gone` is neither"),
            ("[[handover]]\nat='5s'\nrate='0.6'\n", "s.toml:3: rate: `0.6` does not read"),
            ("[[handover]]\nat='5s'\nreorder=true\n", "s.toml:3: reorder: only what is forwarded"),
            (
                "[[handover]]\nat='5s'\nqueue='lost'\nforward_delay='9ms'\nreorder=true\n",
                "s.toml:5: reorder: only what is forwarded",
            ),
            (
                "[[handover]]\nat='5s'\nfailure={ share='2%' }\n",
                "s.toml:3: failure: needs `share` and `outage`",
            ),
            (
                "[[handover]]\nat='5s'\n[[handover]]\nat='5s'\n",
                "s.toml:4: at: the handover at 5s begins before",
            ),
            (
                "duration='9s'\n[[handover]]\nat='9s'\n[[flow]]\ncc='fixed'\n",
                "s.toml: the handover at 9s is not over",
            ),
            ("bin = '1us'\n[[flow]]\ncc='fixed'\n", "s.toml:1: bin: bins are"),
            ("trace = 3\n", "s.toml:1: trace: 3 should be text in quotes"),
            ("rtt = 40\n", "s.toml:1: rtt: 40 should have a unit and quotes: rtt = \"40ms\""),
            (
                "\n[[flow]]\ncc='fixed'\nonoff={ mean=3.5 }\n",
                "s.toml:4: mean: 3.5 should have a unit and quotes: mean = \"3.5MB\"",
            ),
            ("rtt = '-40ms'\n", "s.toml:1: rtt: `-40ms`: a delay is not negative"),
            (
                "[[flow]]\ncc='fixed'\n",
                "s.toml: trace: is missing; write, for example, trace = \"lte-driving\" or",
            ),
            (
                "trace='lte-driving'\nduration='9s'\n[[flow]]\ncc='fixed'\nstart='9s'\n",
                "s.toml:2: duration: flow 1 starts at 9s, but the run ends at 9s: its start",
            ),
            (
                "trace='lte-driving'\n[[flow]]\ncc='fixed'\nstart='10h'\n",
                "s.toml: flow 1 starts at 36000s, but the run ends at 300s",
            ),
            (
                "\ntrace='constant:0mbit'\n[[flow]]\ncc='fixed'\n",
                "s.toml:2: trace: `constant:0mbit`: a rate of zero delivers nothing",
            ),
            (
                "trace='lte-driving'\nuplink_loss='100%'\n[[flow]]\ncc='fixed'\n",
                "s.toml:2: uplink_loss: `100%`: when every packet is lost, nothing arrives",
            ),
            (
                "[[flow]]\ncc='fixed'\ntransfer={ count=3 }\n",
                "s.toml:3: transfer: `size` is missing",
            ),
            (
                "[[flow]]\ncc='fixed'\ntransfer={ size='3', count=3 }\n",
                "s.toml:3: transfer: size: `3` needs a unit",
            ),
            (
                "[[flow]]\ncc='fixed'\ntransfer={ size='3MB', speed=3 }\n",
                "s.toml:3: transfer: speed: unknown; the keys are size, count",
            ),
            (
                "[[flow]]\ncc='fixed'\nonoff={}\ntransfer={ size='3MB' }\n",
                "s.toml:4: transfer: a flow has either",
            ),
            ("[[flow]]\ncc='fixed'\nstagger='often'\n", "s.toml:3: stagger: `often`"),
            ("rto_rule = 'fast'\n", "s.toml:1: rto_rule: `fast` is neither"),
            ("seed = -1\n", "s.toml:1: seed: -1 should be a whole number"),
            ("trace = 'a\n", "s.toml:1: "),
            ("\n\u{feff}cc =]", "s.toml:2: "),
            ("[[flow]]\ncc='fixed'\nonoff={mean='0B'}\n", "s.toml:1: flow: an ON/OFF file"),
        ];
        for (text, expected) in cases {
            let message = error_of(text);
            assert!(message.starts_with(expected), "{text:?}\n got {message}\n not  {expected}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_missing_trace_file_is_named() {
        assert!(
            error_of("trace = 'nowhere.down'\n[[flow]]\ncc='fixed'\n").contains("nowhere.down")
        );
    }
}
