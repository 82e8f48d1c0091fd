//! What is downloaded, how often and how.

use cellpace_base::math::pow;
use cellpace_base::{
    Random, Rate, Span, SpanDistribution, parse_bytes, parse_number, parse_span, split_name,
};
use cellpace_path::schedule::TraceFiles;

use crate::{OnOffFiles, PlayerSpec};

/// Transfers of a flow: each a download of a size whose completion time counts.
///
/// Written `20MB,count=30,gap=1s`: the size, then keys, which docs/reference/scenario.md lists.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferSpec {
    /// Sizes in bytes.
    pub sizes: SizeSpec,
    /// How many there are; `None`: as many as begin before the flow stops.
    pub count: Option<u64>,
    /// When the next one begins.
    pub pace: TransferPace,
    /// Whether all of them use one connection, idle between them, one after the other.
    pub keep: bool,
    /// Whether a connection begins with SYN and SYN-ACK, which wait in both queues.
    pub handshake: bool,
    /// Round trips between the handshake and the request, as of TLS: 0 to 2.
    pub tls: u64,
    /// Size of the packet that asks for the data, IP header included; `None`: 60 bytes with a
    /// handshake, and nothing is asked without one.
    pub request: Option<u32>,
    /// From the request's arrival to the first packet of the answer.
    pub answer_after: Span,
    /// A transfer that takes longer is given up, and its connection closed.
    pub timeout: Option<Span>,
}

/// When the next transfer of a flow begins.
#[derive(Debug, Clone, PartialEq)]
pub enum TransferPace {
    /// Every so often, whether the one before it is complete or not. Over one connection it waits
    /// for the one before.
    Every(Span),
    /// So long after the last byte of the one before it.
    Gap(SpanDistribution),
}

/// Sizes of transfers, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum SizeSpec {
    /// These in turn.
    InTurn(Vec<u64>),
    /// Log-normal, by mean and standard deviation before truncation.
    LogNormal(OnOffFiles),
    /// Pareto: `P(size > x) = (min/x)^shape`, truncated.
    Pareto {
        /// The smallest.
        min: f64,
        /// The exponent, above 0.
        shape: f64,
        /// The largest; larger draws are drawn again.
        max: f64,
    },
    /// Chunks of a video, of which a player chooses the rate and the time.
    Chunks(PlayerSpec),
}

/// Transfers of a flow at most: each has its record in the results.
pub(crate) const MAX_TRANSFERS: u64 = 1_000_000;
/// Bytes of a packet that carries nothing for the user: SYN, SYN-ACK, a request.
pub(crate) const CONTROL_BYTES: u32 = 60;
/// A request is one packet.
const MAX_REQUEST: u64 = 1500;
/// A terabyte: more than any download of one file.
const MAX_SIZE: u64 = 1 << 40;
/// A list of sizes, one a line.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Keys that belong to a distribution of sizes.
const SIZE_KEYS: [&str; 8] = ["mean", "sd", "min", "max", "shape", "rates", "chunk", "buffer"];
/// What a player has where nothing else is written: a ladder for a phone, up to 1080p.
const LADDER: &str = "300kbit+750kbit+1200kbit+1850kbit+2850kbit+4300kbit";
const CHUNK: Span = Span::from_secs(4);
const PLAYER_BUFFER: Span = Span::from_secs(60);
const KEYS: &str =
    "size, count, every, gap, connection, handshake, tls, request, answer_after, timeout";

impl TransferSpec {
    /// One transfer of `bytes`, without a handshake.
    pub fn of_size(bytes: u64) -> Self {
        Self {
            sizes: SizeSpec::InTurn(vec![bytes]),
            count: Some(1),
            pace: TransferPace::Gap(Span::ZERO.into()),
            keep: false,
            handshake: false,
            tls: 0,
            request: None,
            answer_after: Span::ZERO,
            timeout: None,
        }
    }

    /// Reads `SIZE[,key=value...]`; `files` supplies the list of sizes it may name.
    ///
    /// # Errors
    /// When the size, a key or a value does not read, or they contradict each other.
    pub fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let mut size = parts.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is no `key=value`; keys are {KEYS}"))?;
            // Keys of the distribution follow its name, so they are put back behind it.
            if SIZE_KEYS.contains(&key.trim()) {
                size = format!("{size},{part}");
            } else {
                fields.push((key.trim(), value.trim()));
            }
        }
        Self::of_fields(std::iter::once(("size", size.as_str())).chain(fields), files)
    }

    /// Reads keys and their values. Without `gap` and `every` there is one transfer unless `count`
    /// says otherwise; with one of them there are as many as begin before the flow stops.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn of_fields<'a>(
        fields: impl Iterator<Item = (&'a str, &'a str)>,
        files: &mut TraceFiles<'_>,
    ) -> Result<Self, String> {
        let mut spec = Self::of_size(0);
        let (mut paced, mut counted) = (false, false);
        for (key, value) in fields {
            if paced && matches!(key, "gap" | "every") {
                return Err("either `gap` or `every`, once".into());
            }
            spec.set(key, value, files).map_err(|why| format!("{key}: {why}"))?;
            paced |= matches!(key, "gap" | "every");
            counted |= key == "count";
        }
        let is_video = matches!(spec.sizes, SizeSpec::Chunks(_));
        if paced && is_video {
            return Err("the player decides when it asks for a chunk: no `gap`, no `every`".into());
        }
        // Downloads in a rhythm go on until the flow stops, unless their number was given.
        if (paced || is_video) && !counted {
            spec.count = None;
        }
        spec.check()?;
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: &str, files: &mut TraceFiles<'_>) -> Result<(), String> {
        let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
        let whole = |text: &str| {
            text.parse::<u64>().map_err(|_| format!("`{text}` is no whole number from 0"))
        };
        match key {
            "size" => self.sizes = SizeSpec::parse(value, files)?,
            "count" => self.count = Some(whole(value)?),
            "every" => self.pace = TransferPace::Every(span(value)?),
            "gap" => {
                let gap = value.parse::<SpanDistribution>().map_err(|error| error.to_string())?;
                self.pace = TransferPace::Gap(gap);
            }
            "connection" => self.keep = one_of(value, "keep", "new")?,
            "handshake" => self.handshake = one_of(value, "true", "false")?,
            "tls" => self.tls = whole(value)?,
            "request" => {
                let bytes = parse_bytes(value).map_err(|error| error.to_string())?;
                if !(u64::from(CONTROL_BYTES)..=MAX_REQUEST).contains(&bytes) {
                    return Err(format!("is one packet of {CONTROL_BYTES} to {MAX_REQUEST} bytes"));
                }
                self.request = Some(bytes as u32);
            }
            "answer_after" => self.answer_after = span(value)?,
            "timeout" => self.timeout = Some(span(value)?),
            _ => return Err(format!("unknown; the keys are {KEYS}")),
        }
        Ok(())
    }

    /// Checks what single values cannot tell.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.sizes.check()?;
        if self.count.is_some_and(|count| !(1..=MAX_TRANSFERS).contains(&count)) {
            return Err(format!("count: 1 to {MAX_TRANSFERS} transfers"));
        }
        if self.pace == TransferPace::Every(Span::ZERO) {
            return Err("every: 0s would begin all at once; write a time above 0".into());
        }
        if self.tls > 2 || (self.tls > 0 && !self.handshake) {
            return Err("tls: 0, 1 or 2 round trips, after a handshake (handshake=true)".into());
        }
        if !self.answer_after.is_zero() && self.request_bytes().is_none() {
            return Err("answer_after: without a request there is no answer; write request=400B \
                        or handshake=true"
                .into());
        }
        if self.timeout == Some(Span::ZERO) {
            return Err("timeout: 0s would give up each transfer".into());
        }
        Ok(())
    }

    /// Size of the packet that asks for the data, if one does.
    pub(crate) fn request_bytes(&self) -> Option<u32> {
        self.request.or(self.handshake.then_some(CONTROL_BYTES))
    }
}

fn one_of(value: &str, yes: &str, no: &str) -> Result<bool, String> {
    match value {
        _ if value == yes => Ok(true),
        _ if value == no => Ok(false),
        _ => Err(format!("`{value}` is neither `{yes}` nor `{no}`")),
    }
}

impl SizeSpec {
    /// Reads `20MB`, `10kB+100kB` (in turn), `lognormal:mean=4MB,sd=1.8MB,max=10MB`,
    /// `pareto:min=4kB,shape=1.2,max=20MB`, `abr:rates=300kbit+1mbit,chunk=4s,buffer=60s` or `file:NAME` (bytes, one
    /// size a line).
    ///
    /// # Errors
    /// When it does not read.
    pub fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("file:") {
            return Self::in_file(name, files);
        }
        let split = split_name(text);
        match split.name {
            "lognormal" => Self::lognormal(text),
            "pareto" => Self::pareto(text),
            "abr" => Self::chunks(text),
            _ => {
                let sizes = text.split('+').map(|size| parse_bytes(size.trim()));
                sizes.collect::<Result<_, _>>().map(Self::InTurn).map_err(|error| error.to_string())
            }
        }
    }

    fn in_file(name: &str, files: &mut TraceFiles<'_>) -> Result<Self, String> {
        let bytes = files.bytes(name, MAX_LIST_BYTES).map_err(|error| error.to_string())?;
        let text = std::str::from_utf8(&bytes).map_err(|_| format!("{name}: is no text"))?;
        let size = |(line, text): (usize, &str)| {
            text.trim()
                .parse()
                .map_err(|_| format!("{name}:{}: `{}` is no size in bytes", line + 1, text.trim()))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(size).collect::<Result<_, _>>().map(Self::InTurn)
    }

    fn lognormal(text: &str) -> Result<Self, String> {
        let [mean, deviation, max] = values(text, ["mean", "sd", "max"])?;
        let bytes = |key: &str, text: Option<&str>| match text {
            Some(text) => {
                parse_bytes(text).map(|bytes| bytes as f64).map_err(|error| error.to_string())
            }
            None => Err(format!("`{key}` is missing")),
        };
        let max = max.map_or(Ok(MAX_SIZE as f64), |max| bytes("max", Some(max)))?;
        let (mean, deviation) = (bytes("mean", mean)?, bytes("sd", deviation)?);
        Ok(Self::LogNormal(OnOffFiles { mean, deviation, max, ..OnOffFiles::default() }))
    }

    fn pareto(text: &str) -> Result<Self, String> {
        let [min, shape, max] = values(text, ["min", "shape", "max"])?;
        let (Some(min), Some(shape)) = (min, shape) else {
            return Err("`min` or `shape` is missing".into());
        };
        let bytes = |text: &str| {
            parse_bytes(text).map(|bytes| bytes as f64).map_err(|error| error.to_string())
        };
        Ok(Self::Pareto {
            min: bytes(min)?,
            shape: parse_number(shape).map_err(|error| error.to_string())?,
            max: max.map_or(Ok(MAX_SIZE as f64), bytes)?,
        })
    }

    fn chunks(text: &str) -> Result<Self, String> {
        let [rates, chunk, buffer] = values(text, ["rates", "chunk", "buffer"])?;
        let rates = rates.unwrap_or(LADDER).split('+').map(|rate| rate.trim().parse::<Rate>());
        let rates: Vec<Rate> =
            rates.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let span = |text: Option<&str>, otherwise: Span| {
            text.map_or(Ok(otherwise), parse_span).map_err(|error| error.to_string())
        };
        let (chunk, buffer) = (span(chunk, CHUNK)?, span(buffer, PLAYER_BUFFER)?);
        Ok(Self::Chunks(PlayerSpec { rates, chunk, buffer }))
    }

    fn check(&self) -> Result<(), String> {
        let range = 1..=MAX_SIZE;
        match self {
            Self::InTurn(sizes) if sizes.is_empty() => Err("size: there is none".into()),
            Self::InTurn(sizes) => match sizes.iter().find(|size| !range.contains(size)) {
                Some(size) => Err(format!("size: {size} bytes; 1 byte to 1 TB")),
                None => Ok(()),
            },
            Self::LogNormal(sizes) => {
                // The check of ON/OFF files does not know the bound on downloads.
                let largest = OnOffFiles { max: sizes.max.min(MAX_SIZE as f64), ..sizes.clone() };
                largest.check().map_err(|_| "size: a mean from 1 byte to `max`".to_owned())
            }
            Self::Pareto { min, shape, max } => {
                let fits = *min >= 1.0 && min <= max && *max <= MAX_SIZE as f64 && *shape > 0.0;
                fits.then_some(())
                    .ok_or_else(|| "size: `min` from 1 byte to `max`, `shape` above 0".to_owned())
            }
            Self::Chunks(video) => {
                video.check()?;
                let largest = video.chunk_bytes(video.rates.len() - 1);
                range
                    .contains(&largest)
                    .then_some(())
                    .ok_or_else(|| format!("size: chunks of up to {largest} bytes; 1 byte to 1 TB"))
            }
        }
    }

    /// The size of transfer number `index`, in bytes.
    pub(crate) fn draw(&self, index: u64, random: &mut Random) -> u64 {
        match self {
            Self::InTurn(sizes) => sizes[(index % sizes.len() as u64) as usize],
            Self::LogNormal(sizes) => sizes.file(random),
            Self::Pareto { min, shape, max } => {
                // Inverse of the distribution function, truncated: between F(max) and 1.
                let beyond = pow(min / max, *shape);
                let share = beyond + (1.0 - beyond) * (1.0 - random.unit());
                (min * pow(share, -1.0 / shape)).min(*max).round() as u64
            }
            // The player draws none.
            Self::Chunks(video) => video.chunk_bytes(0),
        }
    }
}

/// The values of a distribution's keys, in the order of `keys`.
fn values<'a, const N: usize>(
    text: &'a str,
    keys: [&str; N],
) -> Result<[Option<&'a str>; N], String> {
    let mut values = [None; N];
    let (_, parts) = text.split_once(':').unwrap_or((text, ""));
    for part in parts.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(place) = keys.iter().position(|known| *known == key.trim()) else {
            return Err(format!("`{}` is unknown; the keys are {}", key.trim(), keys.join(", ")));
        };
        values[place] = Some(value.trim());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TransferSpec, String> {
        let mut files = TraceFiles::new(|name| match name {
            "sizes.txt" => Ok(Box::new("1000\n\n2000\n".as_bytes())),
            _ => Ok(Box::new("1000\nmany\n".as_bytes())),
        });
        TransferSpec::parse(text, &mut files)
    }

    #[test]
    fn written_forms_read() {
        let spec = read("20MB,count=30,gap=1s").unwrap();
        assert_eq!(spec.sizes, SizeSpec::InTurn(vec![20_000_000]));
        assert_eq!(spec.count, Some(30));
        assert_eq!(spec.pace, TransferPace::Gap(Span::from_secs(1).into()));
        assert_eq!(read("20MB").unwrap(), TransferSpec::of_size(20_000_000));
        let spec = read(
            "10kB+1MB,every=5s,connection=keep,handshake=true,tls=2,timeout=9s,request=400B,answer_after=3ms",
        );
        let spec = spec.unwrap();
        assert_eq!(spec.sizes, SizeSpec::InTurn(vec![10_000, 1_000_000]));
        assert_eq!((spec.count, spec.keep, spec.handshake, spec.tls), (None, true, true, 2));
        assert_eq!((spec.request_bytes(), spec.timeout), (Some(400), Some(Span::from_secs(9))));
        assert_eq!(read("file:sizes.txt").unwrap().sizes, SizeSpec::InTurn(vec![1000, 2000]));
        let spec = read("lognormal:mean=4MB,sd=1.8MB,max=10MB,gap=exp:10s").unwrap();
        let SizeSpec::LogNormal(sizes) = &spec.sizes else { panic!("{spec:?}") };
        assert_eq!((sizes.mean, sizes.deviation, sizes.max), (4e6, 1.8e6, 10e6));
        let spec = read("abr:rates=1mbit+2mbit,chunk=2s,buffer=20s,connection=keep").unwrap();
        let rates = vec![Rate::from_bps(1_000_000), Rate::from_bps(2_000_000)];
        let [chunk, buffer] = [2, 20].map(Span::from_secs);
        assert_eq!(spec.sizes, SizeSpec::Chunks(PlayerSpec { rates, chunk, buffer }));
        assert_eq!((spec.count, spec.keep), (None, true));
        let SizeSpec::Chunks(video) = read("abr").unwrap().sizes else { panic!() };
        assert_eq!((video.rates.len(), video.buffer), (6, PLAYER_BUFFER));
        let pareto = SizeSpec::Pareto { min: 4e3, shape: 1.2, max: 20e6 };
        assert_eq!(read("pareto:min=4kB,shape=1.2,max=20MB,count=5").unwrap().sizes, pareto);
    }

    #[test]
    fn what_does_not_read_says_why() {
        for (text, part) in [
            ("20", "size: `20` needs a unit"),
            ("0B", "size: 0 bytes"),
            ("20MB,gap=1s,every=2s", "either `gap` or `every`"),
            ("20MB,every=0s", "every: 0s"),
            ("20MB,count=0", "count: 1 to"),
            ("20MB,count=-1", "count: `-1` is no whole number"),
            ("20MB,tls=1", "tls: 0, 1 or 2"),
            ("20MB,handshake=yes", "handshake: `yes` is neither"),
            ("20MB,answer_after=1s", "answer_after: without a request"),
            ("20MB,request=2kB", "request: is one packet"),
            ("20MB,speed=3", "speed: unknown; the keys are size"),
            ("20MB,speed", "`speed` is no `key=value`"),
            ("20MB,timeout=0s", "timeout: 0s"),
            ("file:others.txt", "size: others.txt:2: `many` is no size"),
            ("lognormal:mean=4MB", "size: `sd` is missing"),
            ("lognormal:mean=4MB,sd=1MB,max=1MB", "size: a mean"),
            ("pareto:min=4kB", "size: `min` or `shape`"),
            ("pareto:min=4kB,shape=0", "size: `min` from 1 byte"),
            ("pareto:mean=4kB", "size: `mean` is unknown"),
            ("abr:rates=2mbit+1mbit", "size: `rates` are 1 to 100"),
            ("abr:rates=0bit", "size: `rates` are 1 to 100"),
            ("abr:rates=2", "size: `2` needs a unit"),
            ("abr:chunk=4s,buffer=7s", "size: `chunk` from 1ms"),
            ("abr:chunk=0s", "size: `chunk` from 1ms"),
            ("abr:rates=3000gbit", "size: chunks of up to"),
            ("abr,gap=1s", "the player decides"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_have_their_distribution() {
        let mut random = Random::seeded(1, 0);
        let pareto = read("pareto:min=10kB,shape=2").unwrap().sizes;
        let sizes: Vec<u64> = (0..20_000).map(|index| pareto.draw(index, &mut random)).collect();
        // P(size > 2 min) = 1/4.
        let above = sizes.iter().filter(|size| **size > 20_000).count();
        assert!((4_800..5_200).contains(&above), "{above}");
        assert!(sizes.iter().all(|size| *size >= 10_000));
        let turn = read("1kB+2kB").unwrap().sizes;
        assert_eq!([0, 1, 2].map(|index| turn.draw(index, &mut random)), [1000, 2000, 1000]);
    }
}
