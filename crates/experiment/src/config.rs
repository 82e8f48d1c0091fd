//! The file of an experiment.

use cellpace_base::{Span, nearest, parse_fraction, parse_span};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::error::ExperimentError;
use crate::figure::{Figure, FigureKind};

/// Bytes of a file at most: it is written by hand.
const MAX_BYTES: usize = 256 << 10;
/// Characters of a secret at least: with fewer, hashes of clients could be tried out.
const MIN_SECRET: usize = 16;
/// Characters of a name at most.
const MAX_NAME: usize = 100;
const DEFAULT_SLOT: Span = Span::from_secs(600);

/// An experiment: arms, and how connections are assigned to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Its name. Another name draws other arms.
    pub name: String,
    /// What arms are drawn for.
    pub assign: AssignBy,
    /// Length of a slot, from a second to a day. Slots begin at multiples of it since 1970 in UTC.
    pub slot: Span,
    /// Time after the beginning of each slot that does not count, below the length of a slot.
    pub washout: Span,
    /// Share of slots, clients or connections that are in the experiment at all, above 0 and up to 1.
    pub share: f64,
    /// What arms and hashes of clients are keyed with: the same on all hosts of a site.
    pub secret: ExperimentSecret,
    /// Another seed draws other arms.
    pub seed: u64,
    /// The arms, at least two; the first one is the control, which also has what is not in the experiment.
    pub arms: Vec<Arm>,
    /// What ends the experiment; may be empty.
    pub guard: Vec<GuardLimit>,
}

/// A secret, which no output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct ExperimentSecret(String);

impl ExperimentSecret {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for ExperimentSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// What arms are drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignBy {
    /// All new connections of a slot of time have one arm.
    #[default]
    Time,
    /// All connections of a client's network, IPv4 /24 or IPv6 /64, have one arm.
    Client,
    /// Each connection is drawn for itself.
    Connection,
}

/// An arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Its controller; plain TCP without.
    pub cc: Option<String>,
    /// The kernel's congestion control of plain TCP; that of the system without.
    pub tcp: Option<String>,
    /// Its part of the draws in relation to those of the others, above 0.
    pub weight: f64,
}

/// How much worse than the control an arm may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardLimit {
    /// In which figure.
    pub figure: Figure,
    /// By how much: points of percent of a share, percent of other figures.
    pub worse: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Spanned<Fields>,
    #[serde(default, rename = "arm")]
    arms: Vec<Spanned<ArmFields>>,
    guard: Option<Spanned<GuardFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    name: Spanned<String>,
    #[serde(default)]
    assign: AssignBy,
    slot: Option<Spanned<String>>,
    washout: Option<Spanned<String>>,
    share: Option<Spanned<String>>,
    secret: Spanned<String>,
    #[serde(default)]
    seed: u64,
    control: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmFields {
    name: Spanned<String>,
    cc: Option<Spanned<String>>,
    tcp: Option<Spanned<String>>,
    weight: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuardFields {
    queue_delay_p95: Option<Spanned<String>>,
    queue_delay_p50: Option<Spanned<String>>,
    rtt_p50: Option<Spanned<String>>,
    goodput_p50: Option<Spanned<String>>,
    goodput_p5: Option<Spanned<String>>,
    first_byte_p50: Option<Spanned<String>>,
    first_byte_p95: Option<Spanned<String>>,
    retransmitted: Option<Spanned<String>>,
    errors: Option<Spanned<String>>,
}

impl GuardFields {
    fn of(&self, figure: Figure) -> Option<&Spanned<String>> {
        match figure {
            Figure::QueueDelayP95 => self.queue_delay_p95.as_ref(),
            Figure::QueueDelayP50 => self.queue_delay_p50.as_ref(),
            Figure::RttP50 => self.rtt_p50.as_ref(),
            Figure::GoodputP50 => self.goodput_p50.as_ref(),
            Figure::GoodputP5 => self.goodput_p5.as_ref(),
            Figure::FirstByteP50 => self.first_byte_p50.as_ref(),
            Figure::FirstByteP95 => self.first_byte_p95.as_ref(),
            Figure::Retransmitted => self.retransmitted.as_ref(),
            Figure::Errors => self.errors.as_ref(),
            // The guard judges what users feel.
            Figure::ProcessorTime => None,
        }
    }
}

/// Where a field stands, for errors.
struct Place<'a>(&'a str);

impl Place<'_> {
    fn line(&self, start: usize) -> usize {
        1 + self.0.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count()
    }

    fn wrong<T>(
        &self,
        field: &'static str,
        value: &Spanned<T>,
        reason: impl Into<String>,
    ) -> ExperimentError {
        let line = self.line(value.span().start);
        ExperimentError::Field { line, field, reason: reason.into() }
    }
}

impl Experiment {
    /// Reads the text of a file in TOML. `check_cc` says of a controller's text what is wrong with it.
    ///
    /// # Errors
    /// With the line and the field that is wrong.
    pub fn read(
        text: &str,
        check_cc: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, ExperimentError> {
        if text.len() > MAX_BYTES {
            let reason = format!("more than {} kB are no experiment", MAX_BYTES >> 10);
            return Err(ExperimentError::Syntax { line: 1, reason });
        }
        let place = Place(text);
        let file: File = toml::from_str(text).map_err(|error| ExperimentError::Syntax {
            line: place.line(error.span().map_or(0, |span| span.start)),
            reason: error.message().lines().next().unwrap_or_default().to_owned(),
        })?;
        let fields = file.experiment.get_ref();
        let slot = span(&place, "slot", fields.slot.as_ref(), DEFAULT_SLOT, |slot| {
            (Span::from_secs(1)..=Span::from_secs(86_400)).contains(&slot)
        })?;
        let washout =
            span(&place, "washout", fields.washout.as_ref(), Span::ZERO, |time| time < slot)?;
        let mut arms = arms(&place, &file, check_cc)?;
        if let Some(control) = &fields.control {
            let at =
                arms.iter().position(|arm| arm.name == *control.get_ref()).ok_or_else(|| {
                    place.wrong("control", control, unknown_arm(control.get_ref(), &arms))
                })?;
            arms[..=at].rotate_right(1);
        }
        Ok(Self {
            name: name(&place, &fields.name)?,
            assign: fields.assign,
            slot,
            washout,
            share: share(&place, fields.share.as_ref())?,
            secret: secret(&place, &fields.secret)?,
            seed: fields.seed,
            arms,
            guard: file.guard.map_or(Ok(Vec::new()), |guard| limits(&place, &guard))?,
        })
    }
}

fn name(place: &Place<'_>, name: &Spanned<String>) -> Result<String, ExperimentError> {
    let text = name.get_ref();
    let is_name = (1..=MAX_NAME).contains(&text.len()) && !text.chars().any(char::is_control);
    match is_name {
        true => Ok(text.clone()),
        false => {
            let reason = format!("write 1 to {MAX_NAME} characters in one line");
            Err(place.wrong("name", name, reason))
        }
    }
}

fn span(
    place: &Place<'_>,
    field: &'static str,
    given: Option<&Spanned<String>>,
    default: Span,
    is_allowed: impl Fn(Span) -> bool,
) -> Result<Span, ExperimentError> {
    let Some(text) = given else { return Ok(default) };
    let span =
        parse_span(text.get_ref()).map_err(|error| place.wrong(field, text, error.to_string()))?;
    let range = match field {
        "slot" => "write a time from 1s to 24h",
        _ => "it must be shorter than a slot",
    };
    is_allowed(span).then_some(span).ok_or_else(|| place.wrong(field, text, range))
}

fn share(place: &Place<'_>, given: Option<&Spanned<String>>) -> Result<f64, ExperimentError> {
    let Some(text) = given else { return Ok(1.0) };
    let share = parse_fraction(text.get_ref())
        .map_err(|error| place.wrong("share", text, error.to_string()))?;
    match share > 0.0 {
        true => Ok(share),
        false => Err(place.wrong("share", text, "nothing would be in the experiment")),
    }
}

fn secret(
    place: &Place<'_>,
    secret: &Spanned<String>,
) -> Result<ExperimentSecret, ExperimentError> {
    if secret.get_ref().len() < MIN_SECRET {
        let reason = format!("write {MIN_SECRET} characters or more, the same on all hosts");
        return Err(place.wrong("secret", secret, reason));
    }
    Ok(ExperimentSecret(secret.get_ref().clone()))
}

fn arms(
    place: &Place<'_>,
    file: &File,
    check_cc: impl Fn(&str) -> Result<(), String>,
) -> Result<Vec<Arm>, ExperimentError> {
    if file.arms.len() < 2 {
        let reason = "an experiment has two arms or more: write [[arm]] for each";
        return Err(match file.arms.first() {
            Some(arm) => place.wrong("arm", arm, reason),
            None => place.wrong("arm", &file.experiment, reason),
        });
    }
    let mut arms: Vec<Arm> = Vec::new();
    for fields in &file.arms {
        let fields = fields.get_ref();
        let arm = arm(place, fields, &check_cc)?;
        if arms.iter().any(|other| other.name == arm.name) {
            return Err(place.wrong("name", &fields.name, "another arm has this name"));
        }
        arms.push(arm);
    }
    Ok(arms)
}

fn arm(
    place: &Place<'_>,
    fields: &ArmFields,
    check_cc: impl Fn(&str) -> Result<(), String>,
) -> Result<Arm, ExperimentError> {
    if let (Some(_), Some(tcp)) = (&fields.cc, &fields.tcp) {
        let reason = "an arm has a controller of ours (cc) or one of the kernel's (tcp)";
        return Err(place.wrong("tcp", tcp, reason));
    }
    if let Some(cc) = &fields.cc {
        check_cc(cc.get_ref()).map_err(|error| place.wrong("cc", cc, error))?;
    }
    if let Some(tcp) = &fields.tcp
        && !is_kernel_name(tcp.get_ref())
    {
        return Err(place.wrong("tcp", tcp, "not a name of a congestion control, such as bbr"));
    }
    let weight = fields.weight.as_ref().map_or(1.0, |weight| *weight.get_ref());
    if !(weight.is_finite() && weight > 0.0 && weight <= 1e6) {
        let given = fields.weight.as_ref().expect("the default is right");
        return Err(place.wrong("weight", given, "write a number above 0"));
    }
    let text = |field: &Option<Spanned<String>>| field.as_ref().map(|text| text.get_ref().clone());
    Ok(Arm {
        name: name(place, &fields.name)?,
        cc: text(&fields.cc),
        tcp: text(&fields.tcp),
        weight,
    })
}

fn is_kernel_name(name: &str) -> bool {
    (1..16).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn unknown_arm(name: &str, arms: &[Arm]) -> String {
    let names = || arms.iter().map(|arm| arm.name.as_str());
    match nearest(name, names()) {
        Some(near) => format!("there is no arm `{name}`; did you mean `{near}`?"),
        None => format!(
            "there is no arm `{name}`; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

fn limits(
    place: &Place<'_>,
    guard: &Spanned<GuardFields>,
) -> Result<Vec<GuardLimit>, ExperimentError> {
    let fields = guard.get_ref();
    let mut limits = Vec::new();
    for figure in Figure::ALL {
        let Some(text) = fields.of(figure) else { continue };
        let worse = worse(text.get_ref(), figure)
            .map_err(|reason| place.wrong(figure.name(), text, reason))?;
        limits.push(GuardLimit { figure, worse });
    }
    match limits.is_empty() {
        false => Ok(limits),
        true => {
            let names = Figure::ALL.map(Figure::name).join(", ");
            let reason = format!("it has no figure; write one or more of {names}");
            Err(place.wrong("guard", guard, reason))
        }
    }
}

/// Reads `2 points worse` of a share, `10 % worse` of other figures.
fn worse(text: &str, figure: Figure) -> Result<f64, String> {
    let is_share = figure.kind() == FigureKind::Share;
    let example = if is_share { "2 points worse" } else { "10 % worse" };
    let wrong = || format!("write how much worse it may be, such as \"{example}\"");
    let amount = text.trim().strip_suffix("worse").ok_or_else(wrong)?.trim();
    let units: &[&str] = if is_share { &["points", "point"] } else { &["%"] };
    let number = units.iter().find_map(|unit| amount.strip_suffix(unit)).ok_or_else(wrong)?;
    let worse: f64 = number.trim().parse().map_err(|_| wrong())?;
    // Nothing can lose more than all of it; a delay can double.
    let most = if is_share || figure.is_better_high() { 100.0 } else { 1e6 };
    match worse > 0.0 && worse < most {
        true => Ok(worse),
        false => Err(format!("write a number above 0 and below {most}")),
    }
}
