//! The parameters that a module declares, and their values.

use cellpace_base::{
    ByteCount, GivenValues, Param, ParamError, ParamKind, ParamValue, Rate, Span, format_bytes,
};
use cellpace_guest::abi;

/// Parameters of a module at most.
const MAX_PARAMS: usize = 64;
/// Letters of a text at most.
const MAX_TEXT: usize = 200;

/// Reads the records at `place` of a module's memory. The table lives as long as the process, as those of all other controllers.
///
/// # Errors
/// When they are outside of the memory, without end, or contradictory.
pub(crate) fn read(memory: &[u8], place: u32) -> Result<&'static [Param], String> {
    let mut params: Vec<Param> = Vec::new();
    let mut place = place as usize;
    loop {
        let record = record(memory, place).ok_or("the list has no end within the memory")?;
        if record.key_and_help as u32 == 0 {
            return Ok(Vec::leak(params));
        }
        if params.len() == MAX_PARAMS {
            return Err(format!("more than {MAX_PARAMS} parameters"));
        }
        let param = param(memory, &record)?;
        if params.iter().any(|known| known.key == param.key) {
            return Err(format!("`{}` is declared twice", param.key));
        }
        params.push(param);
        place += 8 * abi::Param::WORDS;
    }
}

fn record(memory: &[u8], place: usize) -> Option<abi::Param> {
    let bytes = memory.get(place..)?.get(..8 * abi::Param::WORDS)?;
    let mut words = [0; abi::Param::WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
    }
    Some(abi::Param::from_words(words))
}

fn text(memory: &[u8], place: u32) -> Result<&str, String> {
    if place == 0 {
        return Ok("");
    }
    let bytes = memory.get(place as usize..).unwrap_or_default();
    let end = bytes.iter().take(MAX_TEXT + 1).position(|byte| *byte == 0);
    let text = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    text.ok_or_else(|| format!("a text that does not end within {MAX_TEXT} letters"))
}

fn param(memory: &[u8], record: &abi::Param) -> Result<Param, String> {
    let key = text(memory, record.key_and_help as u32)?;
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if key.is_empty() || !key.chars().all(is_part) {
        return Err(format!("a key has lower-case letters, digits and `_`, unlike `{key}`"));
    }
    let help = text(memory, (record.key_and_help >> 32) as u32)?;
    let source = text(memory, (record.kind_and_source >> 32) as u32)?;
    let abi::Param { default, low, high, .. } = *record;
    let inside = default.is_nan() || (low..=high).contains(&default);
    if !(low.is_finite() && high.is_finite() && low <= high && inside) {
        return Err(format!("{key}: {default} is not between {low} and {high}"));
    }
    let (kind, written) = kind(record).ok_or_else(|| format!("{key}: there is no such kind"))?;
    let default = if default.is_nan() { String::new() } else { written };
    let kept = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    Ok(Param {
        key: kept(key),
        kind,
        default: kept(&default),
        unit: "",
        help: kept(help),
        source: kept(source),
        expert: false,
        logarithmic: false,
    })
}

/// The kind of a record, and its default as it would be written.
fn kind(record: &abi::Param) -> Option<(ParamKind, String)> {
    let abi::Param { default, low, high, .. } = *record;
    let span = |value: f64| Span::from_nanos(value as u64);
    let rate = Rate::from_bytes_per_sec;
    Some(match record.kind_and_source as u32 {
        abi::KIND_NUMBER => (ParamKind::Number(low, high), default.to_string()),
        abi::KIND_INTEGER => (ParamKind::Integer(low as u64, high as u64), default.to_string()),
        abi::KIND_BOOL => (ParamKind::Bool, (default != 0.0).to_string()),
        abi::KIND_SPAN => (ParamKind::Span(span(low), span(high)), span(default).to_string()),
        abi::KIND_BYTES => {
            (ParamKind::Bytes(low as u64, high as u64), format_bytes(default as u64))
        }
        abi::KIND_RATE => (ParamKind::Rate(rate(low), rate(high)), rate(default).to_string()),
        _ => return None,
    })
}

/// The values of `written` and the defaults of the others, in the order of declaration.
///
/// # Errors
/// When a key is unknown or given twice, or a value does not read or is out of range.
pub(crate) fn values(
    file: &str,
    written: &str,
    params: &'static [Param],
) -> Result<Vec<f64>, String> {
    let given =
        GivenValues::parse(file, written, params, &[]).map_err(|error| error.to_string())?;
    params.iter().map(|param| value(&given, param).map_err(|error| error.to_string())).collect()
}

fn value(given: &GivenValues<'_>, param: &Param) -> Result<f64, ParamError> {
    let number = match param.kind {
        ParamKind::Number(low, high) => read_value::<f64>(given, param, &(low..=high))?,
        ParamKind::Integer(low, high) => {
            read_value::<u64>(given, param, &(low..=high))?.map(|whole| whole as f64)
        }
        ParamKind::Bool => read_value::<bool>(given, param, &())?.map(|is| f64::from(u8::from(is))),
        ParamKind::Span(low, high) => {
            read_value::<Span>(given, param, &(low..=high))?.map(|span| span.as_nanos() as f64)
        }
        ParamKind::Bytes(low, high) => {
            read_value::<ByteCount>(given, param, &(low..=high))?.map(|bytes| bytes.0 as f64)
        }
        ParamKind::Rate(low, high) => {
            read_value::<Rate>(given, param, &(low..=high))?.map(Rate::as_bytes_per_sec)
        }
        ParamKind::Window | ParamKind::Word(_) | ParamKind::Text(_) => None,
    };
    Ok(number.unwrap_or(f64::NAN))
}

fn read_value<T: ParamValue>(
    given: &GivenValues<'_>,
    param: &Param,
    bounds: &T::Bounds,
) -> Result<Option<T>, ParamError> {
    given.value::<Option<T>>(param.key, param.default, bounds)
}
