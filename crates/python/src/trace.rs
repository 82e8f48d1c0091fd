//! Traces.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use cellpace_base::{Span, parse_span};
use cellpace_lab::trace::{
    TableOptions, TraceFigures, TraceFormat, load_trace, predict_json, predict_trace, preview,
    scale_trace, trace_of_rates,
};
use cellpace_lab::{FieldError, open_file, shown_name, trace_files};
use cellpace_path::TraceSpec;
use cellpace_path::fit::fit;
use cellpace_path::radio::RadioSample;
use cellpace_path::radio::rate::Modulation;
use cellpace_path::schedule;
use cellpace_report::{indented, write_atomically};
use pyo3::prelude::*;

use crate::error::{Failure, refused, without_python};
use crate::table::{ArrowTable, floats, integers};

/// Opportunities of 1500 bytes, over and over.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct Trace {
    #[pyo3(get)]
    pub(crate) name: String,
    trace: Arc<schedule::Trace>,
}

impl Trace {
    pub(crate) fn spec(&self) -> TraceSpec {
        TraceSpec::recorded(&*self.name, Arc::clone(&self.trace))
    }
}

#[pymethods]
impl Trace {
    #[staticmethod]
    fn load(py: Python<'_>, text: String, duration: Option<String>, seed: u64) -> PyResult<Self> {
        without_python(py, move || {
            let duration = duration.as_deref().map(parse_span).transpose();
            let duration = FieldError::of("duration", duration)?;
            let trace = load_trace(&text, duration, seed);
            let trace = trace.map_err(|error| Failure::Refused(error.to_string()))?;
            Ok(Self { name: shown_name(&text), trace })
        })
    }

    #[staticmethod]
    fn from_times_ms(name: String, times: Vec<u32>) -> PyResult<Self> {
        let trace = schedule::Trace::from_millis(times).map_err(refused)?;
        Ok(Self { name, trace: Arc::new(trace) })
    }

    #[staticmethod]
    fn from_rates(name: String, times_s: Vec<f64>, mbps: Vec<f64>) -> PyResult<Self> {
        let trace = trace_of_rates(&times_s, &mbps).map_err(refused)?;
        Ok(Self { name, trace: Arc::new(trace) })
    }

    /// Of a table, with what it was taken for where that was guessed.
    #[staticmethod]
    fn from_csv(
        py: Python<'_>,
        path: String,
        time: Option<String>,
        rate: Option<String>,
        unit: Option<String>,
        gap: Option<String>,
    ) -> PyResult<(Self, Option<String>)> {
        without_python(py, move || {
            let options = TableOptions {
                time: FieldError::of("time", time.as_deref().map(str::parse).transpose())?,
                rate: FieldError::of("rate", rate.as_deref().map(str::parse).transpose())?,
                unit: FieldError::of("unit", unit.as_deref().map(str::parse).transpose())?,
                gap: FieldError::of("gap", gap.as_deref().map(str::parse).transpose())?
                    .unwrap_or_default(),
            };
            let reader =
                open_file(&path).map_err(|error| Failure::Refused(format!("{path}: {error}")))?;
            let read = TraceFormat::Csv.read(&path, reader, &options);
            let (recording, reading) = read.map_err(|error| Failure::Refused(error.to_string()))?;
            Ok((Self { name: shown_name(&path), trace: recording.trace }, reading))
        })
    }

    fn __len__(&self) -> usize {
        self.trace.millis().len()
    }

    #[getter]
    fn period_s(&self) -> f64 {
        self.trace.period().as_secs_f64()
    }

    #[getter]
    fn mean_mbps(&self) -> f64 {
        self.trace.mean_rate().as_mbps()
    }

    fn times_ms(&self) -> PyResult<ArrowTable> {
        let times: ArrayRef = Arc::new(UInt32Array::from(self.trace.millis().to_vec()));
        ArrowTable::new("cellpace.trace/1", vec![("time_ms", times)])
    }

    /// Mean rates in at most `bins` bins.
    fn rates(&self, bins: u32) -> PyResult<ArrowTable> {
        let preview = preview(&self.name, &self.trace, bins.max(1));
        let count = preview.capacity_mbps.len();
        let starts = floats((0..count).map(|bin| bin as f64 * preview.bin_s));
        let rates = floats(preview.capacity_mbps.iter().map(|rate| f64::from(*rate)));
        ArrowTable::new("cellpace.trace/1", vec![("start_s", starts), ("capacity_mbps", rates)])
    }

    /// The figures that `cellpace trace show --json` writes.
    fn stats(&self, py: Python<'_>) -> String {
        py.detach(|| indented(&TraceFigures::of(&self.name, &self.trace)))
    }

    /// How well its rate is predicted in windows of these widths in ms, as `cellpace trace predict
    /// --json` writes it.
    fn predict(&self, py: Python<'_>, widths_ms: Vec<u32>) -> PyResult<String> {
        if widths_ms.contains(&0) {
            return Err(refused("widths_ms: at least 1 ms"));
        }
        let widths: Vec<Span> =
            widths_ms.into_iter().map(|width| Span::from_millis(width.into())).collect();
        Ok(py.detach(|| predict_json(&[predict_trace(&self.name, &self.trace, &widths)])))
    }

    /// The same link at a rate that is `factor` times as large.
    fn scaled(&self, factor: f64) -> PyResult<Self> {
        let trace = scale_trace(&self.trace, factor).map_err(refused)?;
        Ok(Self { name: format!("{}*{factor}", self.name), trace: Arc::new(trace) })
    }

    /// The profile of the trace as text.
    fn fit(&self, py: Python<'_>) -> PyResult<String> {
        without_python(py, || {
            let profile = fit(&self.trace);
            let profile = profile.map_err(|e| Failure::Refused(format!("{}: {e}", self.name)))?;
            let seconds = self.trace.period().as_secs_f64();
            let about = format!("fitted to {seconds:.0} s of {}", self.name);
            Ok(profile.with_about(&about).to_string())
        })
    }

    /// Writes it in Mahimahi format.
    fn save(&self, path: &str) -> PyResult<()> {
        let mut text = Vec::new();
        self.trace.write(&mut text).map_err(refused)?;
        write_atomically(Path::new(path), &text).map_err(refused)
    }
}

/// After how many seconds a trace in its written form repeats; `None`: it has no end.
#[pyfunction]
pub(crate) fn trace_period_s(text: &str) -> PyResult<Option<f64>> {
    let spec = TraceSpec::parse(text, &mut trace_files()).map_err(refused)?;
    Ok(spec.period().map(Span::as_secs_f64))
}

/// A drive through a radio layer: a row for each 10 ms.
#[pyfunction]
pub(crate) fn drive(
    py: Python<'_>,
    text: String,
    duration: Option<String>,
    seed: u64,
) -> PyResult<ArrowTable> {
    let drawn = without_python(py, move || {
        let duration = duration.as_deref().map(parse_span).transpose();
        let duration = FieldError::of("duration", duration)?;
        let drawn = cellpace_lab::trace::drive(&text, duration, seed);
        let drawn = drawn.map_err(|error| Failure::Refused(error.to_string()))?;
        drawn.ok_or_else(|| Failure::Refused(format!("trace: `{text}` is no radio layer")))
    })?;
    let samples = drawn.samples();
    let float = |value: fn(&RadioSample) -> f32| {
        floats(samples.iter().map(move |sample| f64::from(value(sample))))
    };
    let integer = |value: fn(&RadioSample) -> u32| {
        integers(samples.iter().map(move |sample| u64::from(value(sample))))
    };
    ArrowTable::new(
        "cellpace.drive/1",
        vec![
            ("position_m", float(|sample| sample.position_m)),
            ("sinr_db", float(|sample| sample.sinr_db)),
            ("bits_per_symbol", integer(|sample| bits_per_symbol(sample.modulation()))),
            ("bytes", integer(|sample| sample.bytes)),
            ("users", integer(|sample| sample.users.into())),
        ],
    )
}

/// 0: nothing is sent.
const fn bits_per_symbol(modulation: Modulation) -> u32 {
    match modulation {
        Modulation::None => 0,
        Modulation::Qpsk => 2,
        Modulation::Qam16 => 4,
        Modulation::Qam64 => 6,
    }
}
