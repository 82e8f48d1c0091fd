//! What makes a path, and the fields by which it is written.
//!
//! A field of a path is a member of [`PathSpec`] and a line of [`PATH_FIELDS`]. Options, scenario
//! files, plans of sweeps, the page's query and Python read that table.

use std::fmt::Display;

use cellpace_base::Span;

use crate::profile;
use crate::schedule::{Recording, TraceError, TraceFiles};
use crate::{
    DelaySpec, FieldError, Handover, ImpairSpec, JitterSpec, LossSpec, QueueSpec, RrcSpec,
    TraceSpec,
};

/// Everything that makes one direction of a path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathSpec {
    /// When the link may deliver; `None`: there is no bottleneck, packets leave as they arrive.
    pub trace: Option<TraceSpec>,
    /// What waits in front of it.
    pub queue: QueueSpec,
    /// Delay in front of the queue, beside what the trace itself brings
    /// ([`TraceSpec::base_delay`]).
    pub delay: DelaySpec,
    /// The RTT without queues, of which `delay` is a part. A queue that is sized in BDP takes its
    /// mean; what the trace brings comes on top.
    pub rtt: DelaySpec,
    /// Random loss in front of the queue.
    pub loss: LossSpec,
    /// Changes of the path, in the order of time and without overlap
    /// ([`Handover::check_order`]). A new RTT replaces `delay`, not what the trace brings.
    pub handovers: Vec<Handover>,
    /// Reordering in front of the queue, duplication and corruption behind the link.
    pub impair: ImpairSpec,
    /// Jitter behind the link.
    pub jitter: JitterSpec,
    /// Idle and promotion of the link, which the way back shares ([`Path::share_radio`](crate::Path::share_radio)).
    pub rrc: RrcSpec,
    /// The longest random delay in front of everything, flow by flow; flows beyond have none. The
    /// simulator sets it for the senders of a scenario.
    pub send_jitter: Vec<Span>,
}

/// Both directions of a link: data goes down, acks go up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DuplexSpec {
    /// Towards the receiver.
    pub down: PathSpec,
    /// The way back.
    pub up: PathSpec,
}

impl DuplexSpec {
    /// Round-trip delay without queueing.
    pub fn rtt(&self) -> &DelaySpec {
        &self.down.rtt
    }

    /// Returns what both directions have beside trace, queue, delay and loss of the way down, by the names of
    /// [`PATH_FIELDS`]: what differs from the default.
    pub fn other_conditions(&self) -> Vec<(&'static str, String)> {
        let standard = PathSpec::default();
        let Self { down, up } = self;
        let handovers: Vec<String> = down.handovers.iter().map(Handover::to_string).collect();
        let uplink = up.trace.as_ref().map_or(String::new(), ToString::to_string);
        let all = [
            ("uplink", up.trace != standard.trace, uplink),
            ("uplink_queue", up.queue != standard.queue, up.queue.to_string()),
            ("uplink_loss", up.loss != standard.loss, up.loss.to_string()),
            ("jitter", down.jitter != standard.jitter, down.jitter.to_string()),
            ("rrc", down.rrc != standard.rrc, down.rrc.to_string()),
            ("impair", down.impair != standard.impair, down.impair.to_string()),
            ("uplink_impair", up.impair != standard.impair, up.impair.to_string()),
            ("handover", !handovers.is_empty(), handovers.join(", ")),
        ];
        let differs = all.into_iter().filter(|(_, differs, _)| *differs);
        differs.map(|(name, _, value)| (name, value)).collect()
    }

    /// Sets the round-trip delay, half of it in each direction.
    pub fn set_rtt(&mut self, rtt: DelaySpec) {
        (self.down.delay, self.up.delay) = (rtt.half(), rtt.half());
        (self.down.rtt, self.up.rtt) = (rtt.clone(), rtt);
    }

    /// Sets the changes of both directions. What waits to go up is in the device, which takes it
    /// along: nothing is reordered there.
    pub fn set_handovers(&mut self, handovers: Vec<Handover>) {
        let up = handovers.iter().map(|handover| Handover { reorder: None, ..*handover });
        self.up.handovers = up.collect();
        self.down.handovers = handovers;
    }

    /// Begins the traces of both directions at `from`, and RTTs and losses from files with them, so
    /// that they stay together ([`TraceSpec::starting_at`]). Once: it shifts what was shifted again.
    pub fn start_traces_at(&mut self, from: Span) {
        if from.is_zero() {
            return;
        }
        if let Some(rtt) = self.down.rtt.of_file_starting_at(from) {
            self.set_rtt(rtt);
        }
        for path in [&mut self.down, &mut self.up] {
            path.trace = path.trace.take().map(|trace| trace.starting_at(from));
            path.loss = std::mem::take(&mut path.loss).starting_at(from);
        }
    }

    /// Refuses a link over which no packet or no acknowledgment ever arrives.
    ///
    /// # Errors
    /// When a rate is always zero, a loss is always 100 %, or the RTT above an hour.
    pub fn check_delivers(&self) -> Result<(), FieldError> {
        let rtt = self.rtt();
        if rtt.mean() > MAX_RTT {
            return Err(FieldError::new("rtt", format!("`{rtt}`: the longest is {MAX_RTT}")));
        }
        for (field, path) in [("trace", &self.down), ("uplink", &self.up)] {
            if let Some(silent) = path.trace.as_ref().filter(|trace| trace.is_silent()) {
                let why = format!("`{silent}`: a rate of zero delivers nothing");
                return Err(FieldError::new(field, why));
            }
        }
        for (field, PathSpec { loss, .. }) in [("loss", &self.down), ("uplink_loss", &self.up)] {
            if loss.mean() >= 1.0 {
                let why = format!("`{loss}`: when every packet is lost, nothing arrives");
                return Err(FieldError::new(field, why));
            }
        }
        Ok(())
    }
}

/// The longest RTT, as in files of delays.
const MAX_RTT: Span = Span::from_secs(3600);

/// One field of a path: its name, its written form, and its place in a [`DuplexSpec`].
#[derive(Debug)]
pub struct PathField {
    /// The name in scenario files and plans; the option has `-` between words.
    pub name: &'static str,
    /// What stands for its text in the help of the option.
    pub value_name: &'static str,
    /// The text that says what holds without the field, if there is one.
    pub default: Option<&'static str>,
    /// A text, for errors.
    pub example: &'static str,
    /// The help of the option; empty: no option of its own.
    pub help: &'static str,
    /// Whether there may be several texts, each an addition.
    pub is_repeatable: bool,
    /// Whether a running link can take another text.
    pub can_change: bool,
    read: fn(&mut DuplexSpec, &str, &mut TraceFiles<'_>) -> Result<(), String>,
    copy: fn(&mut DuplexSpec, &DuplexSpec),
}

impl PathField {
    /// What stands between several texts of one field where they are one text; none of them has it.
    pub const SEVERAL: &str = "; ";

    /// The field of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PATH_FIELDS.iter().find(|field| field.name == name)
    }

    /// Reads a text into its place; `files` supplies the file it may name.
    ///
    /// # Errors
    /// When the text does not read.
    pub fn read(
        &self,
        link: &mut DuplexSpec,
        text: &str,
        files: &mut TraceFiles<'_>,
    ) -> Result<(), FieldError> {
        FieldError::of(self.name, (self.read)(link, text, files))
    }

    /// Takes the field over from another link.
    pub fn copy(&self, to: &mut DuplexSpec, from: &DuplexSpec) {
        (self.copy)(to, from);
    }

    /// The option without its dashes.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// Makes of a field how it is read and copied: by its place, or by places and a setter.
macro_rules! place {
    ($direction:ident.$field:ident, $parse:expr) => {
        place!([$direction.$field], |link, value| link.$direction.$field = value, $parse)
    };
    ([$($direction:ident.$field:ident),+], |$link:ident, $value:ident| $set:expr, $parse:expr) => {
        PathField {
            read: |$link, text, files| {
                let $value = $parse(text, files).map_err(text_of)?;
                $set;
                Ok(())
            },
            copy: |to, from| { $(to.$direction.$field = from.$direction.$field.clone();)+ },
            ..NO_FIELD
        }
    };
}

/// The fields of a path in the order of the cells of a sweep: the first changes most slowly.
pub const PATH_FIELDS: &[PathField] = &[
    PathField {
        name: "path",
        value_name: "FILE",
        example: "leo-bent-pipe",
        help: "Rate, RTT and loss at once, in place of --trace: a table with a column of each (one \
               of the last two may be missing), or a profile that has them (leo-bent-pipe, \
               profile:FILE). --rtt and --loss replace its own",
        can_change: false,
        ..place!(
            [down.trace, down.delay, down.rtt, up.delay, up.rtt, down.loss],
            |link, whole| whole.set(link),
            WholePath::parse
        )
    },
    PathField {
        name: "trace",
        value_name: "TRACE",
        example: "lte-driving",
        ..place!(down.trace, trace)
    },
    PathField {
        name: "rtt",
        value_name: "TIME",
        default: Some("40ms"),
        example: "40ms",
        help: "Round-trip delay without queueing: 40ms, step:10ms/5s,100ms/5s, \
               random:10ms..100ms/5s, file:DELAYS (lines of ms and delay; of delays alone, \
               file:DELAYS,every=10ms)",
        ..place!(
            [down.delay, down.rtt, up.delay, up.rtt],
            |link, rtt| link.set_rtt(rtt),
            DelaySpec::parse
        )
    },
    PathField {
        name: "queue",
        value_name: "QUEUE",
        default: Some("droptail:2MB"),
        example: "droptail:100pkts",
        help: "Queue at the bottleneck: droptail:2MB, droptail:100pkts, droptail (2MB), infinite, \
               drophead:..., red:..., red:classic, codel, pie, fq_codel, fq",
        ..place!(down.queue, |text: &str, _| text.parse::<QueueSpec>())
    },
    PathField {
        name: "loss",
        value_name: "LOSS",
        default: Some("0%"),
        example: "1%",
        help: "Random loss: 1%, ge:..., step:0%/5s,1%/5s, random:0%..1%/5s, file:LOSSES",
        ..place!(down.loss, LossSpec::parse)
    },
    PathField {
        name: "uplink",
        value_name: "TRACE",
        example: "lte-driving",
        help: "Trace of the reverse direction [default: unlimited]",
        ..place!(up.trace, trace)
    },
    PathField {
        name: "uplink_queue",
        value_name: "QUEUE",
        default: Some("droptail:2MB"),
        example: "droptail:100pkts",
        help: "Queue of the uplink; forms as for --queue",
        ..place!(up.queue, |text: &str, _| text.parse::<QueueSpec>())
    },
    PathField {
        name: "uplink_loss",
        value_name: "LOSS",
        default: Some("0%"),
        example: "1%",
        help: "Random loss of acks and receivers' reports on the way back; forms as for --loss",
        ..place!(up.loss, LossSpec::parse)
    },
    PathField {
        name: "impair",
        value_name: "[up:]KEY=VALUE,...",
        example: "duplicate=0.1%",
        help: "Impairments of packets: reorder=1%/5ms (held back so long), duplicate=0.1%, \
               corrupt=0.01%, joined by commas; with `up:` in front those of the way back. May be \
               repeated",
        is_repeatable: true,
        ..place!(
            [down.impair, up.impair],
            |link, impair| match impair {
                (true, impair) => link.up.impair = impair,
                (false, impair) => link.down.impair = impair,
            },
            impairment
        )
    },
    PathField {
        name: "uplink_impair",
        value_name: "KEY=VALUE,...",
        example: "duplicate=0.1%",
        // A running link takes `impair` with `up:` in front.
        can_change: false,
        ..place!(up.impair, |text: &str, _| text.parse::<ImpairSpec>())
    },
    PathField {
        name: "jitter",
        value_name: "JITTER",
        default: Some("none"),
        example: "harq:bler=10%,rtt=8ms",
        help: "Jitter of the radio link: harq:bler=10%,rtt=8ms (one block in ten fails and comes \
               8 ms later, delivery in order)",
        can_change: false,
        ..place!(down.jitter, |text: &str, _| text.parse::<JitterSpec>())
    },
    PathField {
        name: "rrc",
        value_name: "RRC",
        default: Some("none"),
        example: "lte",
        help: "Idle and promotion of the radio link: lte, umts, or idle=11.6s,promotion=260ms (after \
               so long without packets the next one waits so long)",
        can_change: false,
        ..place!(down.rrc, |text: &str, _| text.parse::<RrcSpec>())
    },
    PathField {
        name: "handover",
        value_name: "TIME[/...]",
        example: "30s/200ms/80ms/lost",
        help: "Handover: 30s, or 30s/200ms/80ms/lost (when, interruption, new RTT, what becomes of \
               the queue). May be repeated",
        is_repeatable: true,
        can_change: false,
        ..PathField {
            read: |link, text, _| {
                let mut handovers = link.down.handovers.clone();
                handovers.push(text.parse().map_err(text_of)?);
                Handover::check_order(&handovers)?;
                link.set_handovers(handovers);
                Ok(())
            },
            copy: |to, from| to.set_handovers(from.down.handovers.clone()),
            ..NO_FIELD
        }
    },
];

const NO_FIELD: PathField = PathField {
    name: "",
    value_name: "",
    default: None,
    example: "",
    help: "",
    is_repeatable: false,
    can_change: true,
    read: |_, _, _| Ok(()),
    copy: |_, _| (),
};

/// Rate, RTT and loss that belong together.
struct WholePath {
    trace: TraceSpec,
    rtt: Option<DelaySpec>,
    loss: Option<LossSpec>,
}

/// The RTT of a path that brings none, as that of the field.
const OTHER_RTT: Span = Span::from_millis(40);

impl WholePath {
    fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, crate::PathError> {
        let text = text.trim();
        let profile = match text.strip_prefix("profile:") {
            Some(file) => Some(files.profile(file.trim())?),
            None => profile::builtin(text),
        };
        let whole = match profile {
            Some(profile) => Self {
                trace: TraceSpec::parse(text, files)?,
                rtt: profile.rtt().cloned().map(DelaySpec::from),
                loss: profile.loss().cloned().map(LossSpec::Changing),
            },
            None => Self::recorded(text, files.recording(text)?)?,
        };
        if whole.rtt.is_none() && whole.loss.is_none() {
            let problem = "has a rate and neither RTTs nor losses: give it as the trace".to_owned();
            return Err(TraceError::Unreadable { name: text.to_owned(), problem }.into());
        }
        Ok(whole)
    }

    fn recorded(name: &str, recording: Recording) -> Result<Self, crate::PathError> {
        if let Some(problem) = recording.problem {
            return Err(problem.into());
        }
        if let (None, None, Some(header)) = (&recording.rtt, &recording.loss, &recording.header) {
            let problem = format!(
                "`{header}` names no column of RTTs or losses, such as rtt_ms or loss_percent: \
                 without them it is a trace"
            );
            return Err(TraceError::line(name, 1, problem).into());
        }
        Ok(Self {
            trace: TraceSpec::recorded(name, recording.trace),
            rtt: recording.rtt.map(|steps| DelaySpec::recorded(name, steps)),
            loss: recording.loss.map(|steps| LossSpec::File(name.to_owned(), steps)),
        })
    }

    /// Sets all of them, as a copy of the field takes all.
    fn set(self, link: &mut DuplexSpec) {
        link.down.trace = Some(self.trace);
        link.set_rtt(self.rtt.unwrap_or(DelaySpec::constant(OTHER_RTT)));
        link.down.loss = self.loss.unwrap_or_default();
    }
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}

fn trace(text: &str, files: &mut TraceFiles<'_>) -> Result<Option<TraceSpec>, crate::PathError> {
    TraceSpec::parse(text, files).map(Some)
}

/// Reads impairments, and whether they are those of the way back (`up:` in front).
fn impairment(text: &str, _: &mut TraceFiles<'_>) -> Result<(bool, ImpairSpec), crate::PathError> {
    match text.trim().strip_prefix("up:") {
        Some(rest) => Ok((true, rest.parse()?)),
        None => Ok((false, text.trim().parse()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<DuplexSpec, FieldError> {
        let (mut link, mut files) = (DuplexSpec::default(), TraceFiles::none());
        for (name, text) in fields {
            PathField::find(name).unwrap().read(&mut link, text, &mut files)?;
        }
        Ok(link)
    }

    #[test]
    fn every_field_is_read_copied_and_named() {
        for field in PATH_FIELDS {
            let link = read(&[(field.name, field.example)]).unwrap();
            assert_ne!(link, DuplexSpec::default(), "{}", field.name);
            let mut copy = DuplexSpec::default();
            field.copy(&mut copy, &link);
            assert_eq!(copy, link, "{}", field.name);
            let error = read(&[(field.name, "?")]).unwrap_err();
            assert_eq!(error.field, field.name);
            assert_eq!(error.option(), format!("--{}", field.option()));
            if let Some(default) = field.default.filter(|_| field.name != "rtt") {
                let link = read(&[(field.name, default)]).unwrap();
                assert_eq!(link, DuplexSpec::default(), "{}", field.name);
            }
        }
    }

    #[test]
    fn a_recording_is_a_whole_path_that_other_fields_change() {
        use crate::schedule::Trace;
        use crate::steps::Steps;

        let mut files = TraceFiles::new(|_| Ok(Box::new("".as_bytes()))).read_by(|name, _| {
            let trace = Trace::from_millis((1..=4).collect()).unwrap();
            let steps = |text: &str| Steps::parse(text, "rtt").unwrap();
            let rtt = (name != "rates").then(|| steps("step:20ms/2ms,30ms/2ms"));
            let loss = (name == "all").then(|| Steps::parse("step:0%/2ms,4%/2ms", "loss").unwrap());
            Ok(Recording { rtt, loss, ..trace.into() })
        });
        let mut read = |fields: &[(&str, &str)]| {
            let mut link = DuplexSpec::default();
            for (name, text) in fields {
                PathField::find(name).unwrap().read(&mut link, text, &mut files)?;
            }
            Ok::<_, FieldError>(link)
        };
        let mut link = read(&[("path", "all")]).unwrap();
        assert_eq!(link.rtt().mean(), Span::from_millis(25));
        assert_eq!(link.down.loss.mean(), 0.02);
        assert_eq!(link.down.trace.as_ref().unwrap().to_string(), "all");
        link.start_traces_at(Span::from_millis(3));
        let turned = |text: &str| Steps::<Span>::parse(text, "rtt").unwrap();
        assert_eq!(
            *link.rtt(),
            DelaySpec::recorded("all", turned("step:30ms/1ms,20ms/2ms,30ms/1ms"))
        );
        let other = read(&[("path", "rtts"), ("rtt", "9ms"), ("loss", "1%")]).unwrap();
        assert_eq!(
            (other.rtt().to_string(), other.down.loss.to_string()),
            ("9ms".into(), "1%".into())
        );
        let error = read(&[("path", "rates")]).unwrap_err();
        assert!(error.to_string().starts_with("path: rates: has a rate and neither"), "{error}");
        assert!(read(&[("path", "lte-driving")]).is_err());
    }

    #[test]
    fn files_of_rtt_and_loss_begin_with_the_trace() {
        let mut files = TraceFiles::new(|name| {
            Ok(Box::new(match name {
                "rtts" => "0 20\n2 30\n".as_bytes(),
                _ => "0 0%\n2 4%\n".as_bytes(),
            }))
        });
        let mut link = DuplexSpec::default();
        for (name, text) in [("rtt", "file:rtts"), ("loss", "file:l"), ("uplink_loss", "file:l")] {
            PathField::find(name).unwrap().read(&mut link, text, &mut files).unwrap();
        }
        let whole = link.clone();
        link.start_traces_at(Span::ZERO);
        assert_eq!(link, whole);
        link.start_traces_at(Span::from_millis(2));
        let turned = crate::Steps::parse("step:30ms/2ms,20ms/2ms", "rtt").unwrap();
        assert_eq!(*link.rtt(), DelaySpec::recorded("rtts", turned));
        assert_eq!(link.down.delay, link.rtt().half());
        assert_ne!(link.down.loss, whole.down.loss);
        assert_eq!(link.up.loss, link.down.loss);
        let (mut drawn, same) = (read(&[("rtt", "random:1ms..9ms/5ms")]).unwrap(), link.rtt());
        drawn.start_traces_at(Span::from_millis(2));
        assert_ne!(drawn.rtt(), same);
        assert_eq!(drawn.rtt().to_string(), "random:1ms..9ms/5ms");
    }

    #[test]
    fn an_rtt_is_halved_and_a_handover_goes_both_ways() {
        let link = read(&[("rtt", "50ms"), ("handover", "3s"), ("handover", "9s/1s")]).unwrap();
        let delay = |path: &PathSpec| path.delay.to_string();
        assert_eq!([delay(&link.down), delay(&link.up)], ["25ms", "25ms"]);
        assert_eq!(link.rtt().to_string(), "50ms");
        assert_eq!((link.down.handovers.len(), link.up.handovers.len()), (2, 2));
        let error = read(&[("handover", "9s"), ("handover", "3s")]).unwrap_err();
        assert_eq!(error.field, "handover");
    }

    #[test]
    fn impairments_of_the_way_back_have_two_spellings() {
        let both = read(&[("impair", "duplicate=1%"), ("impair", "up:corrupt=2%")]).unwrap();
        let same = read(&[("impair", "duplicate=1%"), ("uplink_impair", "corrupt=2%")]).unwrap();
        assert_eq!(both, same);
    }

    #[test]
    fn what_delivers_nothing_is_refused() {
        for (field, text) in [
            ("rtt", "2h"),
            ("trace", "constant:0mbit"),
            ("uplink", "constant:0mbit"),
            ("loss", "100%"),
            ("uplink_loss", "100%"),
        ] {
            assert_eq!(read(&[(field, text)]).unwrap().check_delivers().unwrap_err().field, field);
        }
        assert_eq!(DuplexSpec::default().check_delivers(), Ok(()));
    }
}
