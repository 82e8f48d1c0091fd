//! Controllers that are written in Python.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::{Rate, Span, Time, nearest, parse_span};
use cellpace_cc::{
    Ack, Block, Controller, ControllerSpec, Ecn, Frame, Loss, Mark, Pacing, Permit, SentPacket,
    Setup, Spurious, Stamp, Timeout,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::beside::AllBeside;
use crate::events::{AckEvent, EpochEvent, LossEvent, MarkEvent, PacketEvent, TimeoutEvent};

/// The first exception of controllers that run together. Once there is one, none of them is called
/// again: whoever runs them looks here and ends the run.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<RaisedState>);

#[derive(Default)]
struct RaisedState {
    is_set: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Raised {
    fn set(&self, error: PyErr) {
        let mut first = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.0.is_set.store(true, Ordering::Relaxed);
    }

    /// Whether there is an exception.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// The exception in words.
    fn text(&self) -> Option<String> {
        if !self.is_set() {
            return None;
        }
        // Python's lock first: to wait for it with the other one held could last for ever.
        Python::attach(|_| {
            let error = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
            Some(error.as_ref().map_or_else(|| "an exception".to_owned(), ToString::to_string))
        })
    }

    /// Takes the exception, with its own traceback.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Bursts of a controller with a pacing rate, as of most of the registry's.
const BURST_PACKETS: u64 = 2;
/// How often `on_epoch` is called unless the class says otherwise.
const DEFAULT_EPOCH: Span = Span::from_millis(5);
/// The shortest epoch: below it single acks are cheaper.
const MIN_EPOCH: Span = Span::from_micros(100);

/// Bytes that may be in flight once a controller has failed.
const LAST_WINDOW: u64 = 15_000;

/// A controller whose connections are objects that `make` returns, called `name` in results. What one raises goes to
/// `raised` and ends all; without it, it is the failure of that connection alone.
pub(crate) fn own_controller(
    name: &str,
    make: Py<PyAny>,
    raised: Option<&Raised>,
) -> ControllerSpec {
    let raised = raised.cloned();
    ControllerSpec::new(name, move |setup| {
        let raised = raised.clone().unwrap_or_default();
        let made = Python::attach(|py| PyController::new(py, &make, setup));
        Box::new(
            made.unwrap_or_else(|error| {
                raised.set(error);
                PyController::ended(raised.clone())
            })
            .reporting_to(raised.clone()),
        )
    })
}

/// The methods that a class defines; those of the base class do nothing and are not called.
#[derive(Default)]
struct Methods {
    on_sent: Option<Py<PyAny>>,
    on_ack: Option<Py<PyAny>>,
    on_loss: Option<Py<PyAny>>,
    on_mark: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_spurious_timeout: Option<Py<PyAny>>,
    on_spurious_loss: Option<Py<PyAny>>,
    on_path_change: Option<Py<PyAny>>,
    on_deadline: Option<Py<PyAny>>,
    on_epoch: Option<Py<PyAny>>,
    /// Whether the class says what is inside it.
    shows: bool,
}

impl Methods {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let base = object.py().import("cellpace")?.getattr("Controller")?;
        let class = object.get_type();
        check_names(object, &base)?;
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            if class.getattr(name)?.is(&base.getattr(name)?) {
                return Ok(None);
            }
            let bound = object.getattr(name)?;
            if !bound.is_callable() {
                let text = format!("{}.{name} is no method", class.name()?);
                return Err(PyTypeError::new_err(text));
            }
            Ok(Some(bound.unbind()))
        };
        Ok(Self {
            on_sent: method("on_sent")?,
            on_ack: method("on_ack")?,
            on_loss: method("on_loss")?,
            on_mark: method("on_mark")?,
            on_timeout: method("on_timeout")?,
            on_spurious_timeout: method("on_spurious_timeout")?,
            on_spurious_loss: method("on_spurious_loss")?,
            on_path_change: method("on_path_change")?,
            on_deadline: method("on_deadline")?,
            on_epoch: method("on_epoch")?,
            shows: method("inside")?.is_some(),
        })
    }
}

/// Refuses a method `on_...` that would never be called.
fn check_names(object: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<()> {
    let hooks = |of: &Bound<'_, PyAny>| -> PyResult<Vec<String>> {
        let names: Vec<String> = of.dir()?.extract()?;
        Ok(names.into_iter().filter(|name| name.starts_with("on_")).collect())
    };
    let known = hooks(base)?;
    let Some(unknown) = hooks(object)?.into_iter().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let hint = match nearest(&unknown, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    let class = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("{class}.{unknown} would never be called; {hint}")))
}

/// Names of values at most, in a process: they stay in memory.
const MAX_NAMES: usize = 1000;

/// What the method `inside` of a controller says.
fn values_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<(&'static str, f64)>> {
    let found = object.call_method0(intern!(object.py(), "inside"))?;
    let values = found.cast::<PyDict>().ok().map(|values| {
        let value = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((lasting(&name.extract::<String>()?)?, value.extract::<f64>()?))
        };
        values.iter().map(value).collect::<PyResult<_>>()
    });
    values.unwrap_or_else(|| Err(wrong(object, "inside()", "a dictionary of numbers", &found)))
}

/// The same text for as long as the process runs, as names of values are.
fn lasting(name: &str) -> PyResult<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if names.len() == MAX_NAMES {
        let text = format!("inside: `{name}`: there are {MAX_NAMES} names of values already");
        return Err(PyValueError::new_err(text));
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    Ok(name)
}

/// The codepoint that a class asks for.
fn ecn(object: &Bound<'_, PyAny>) -> PyResult<Ecn> {
    let wish = object.getattr("ecn")?;
    match wish.extract::<Option<String>>().ok().as_ref().map(Option::as_deref) {
        Some(None) => Ok(Ecn::NotEct),
        Some(Some("classic")) => Ok(Ecn::Ect0),
        Some(Some("l4s")) => Ok(Ecn::Ect1),
        _ => {
            let (class, found) = (object.get_type().name()?, wish.repr()?);
            let text = format!("{class}.ecn must be None, 'classic' or 'l4s'; it is {found}");
            Err(PyTypeError::new_err(text))
        }
    }
}

/// What happened since the last call of `on_epoch`.
struct Epoch {
    length: Span,
    next: Time,
    sums: EpochEvent,
}

/// A connection whose controller is an object of Python. Window, pacing and deadline are read after
/// each call and asked for here, many times a packet, without Python.
#[derive(Default)]
struct PyController {
    object: Option<Py<PyAny>>,
    methods: Methods,
    raised: Raised,
    mss: u64,
    cwnd: u64,
    pacing: Option<Rate>,
    deadline: Option<Time>,
    epoch: Option<Epoch>,
    ecn: Option<Ecn>,
    beside: AllBeside,
}

impl PyController {
    fn new(py: Python<'_>, make: &Py<PyAny>, setup: Setup) -> PyResult<Self> {
        let object = make.bind(py).call0()?;
        let base = py.import("cellpace")?.getattr("Controller")?;
        if !object.is_instance(&base)? {
            let text =
                format!("a cellpace.Controller is needed, not {}", object.get_type().name()?);
            return Err(PyTypeError::new_err(text));
        }
        let methods = Methods::of(&object)?;
        let beside = AllBeside::of(&object, &setup)?;
        let mut random = setup.random;
        object.call_method1("start", (setup.mss, seconds(setup.start), random.bits()))?;
        let epoch = methods.on_epoch.is_some().then(|| epoch(&object, setup.start)).transpose()?;
        let ecn = Some(ecn(&object)?);
        let mut made = Self { methods, mss: setup.mss, epoch, ecn, beside, ..Self::default() };
        made.read(&object)?;
        made.object = Some(object.unbind());
        Ok(made)
    }

    /// Without an object: a window as at a beginning, so that a transfer can still be ended.
    fn ended(raised: Raised) -> Self {
        Self { cwnd: LAST_WINDOW, raised, ..Self::default() }
    }

    fn reporting_to(self, raised: Raised) -> Self {
        Self { raised, ..self }
    }

    /// Reads what the controller wants from now on.
    fn read(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let cwnd = object.getattr(intern!(py, "cwnd"))?;
        self.cwnd = bytes(&cwnd)
            .ok_or_else(|| wrong(object, "cwnd", "a number of bytes, at least 0", &cwnd))?;
        let pacing = object.getattr(intern!(py, "pacing"))?;
        self.pacing = match pacing.is_none() {
            true => None,
            false => {
                let rate = number(&pacing);
                let rate = rate.ok_or_else(|| {
                    wrong(object, "pacing", "bytes per second, at least 0", &pacing)
                });
                Some(Rate::from_bytes_per_sec(rate?))
            }
        };
        let deadline = object.getattr(intern!(py, "next_deadline"))?;
        self.deadline = match deadline.is_none() {
            true => None,
            false => {
                let at = number(&deadline);
                let at = at.ok_or_else(|| {
                    wrong(object, "next_deadline", "seconds, at least 0", &deadline)
                });
                Some(Time::ZERO + Span::from_secs_f64(at?))
            }
        };
        if self.beside.is_empty() {
            return Ok(());
        }
        let follows = object.getattr(intern!(py, "follows"))?;
        let name = follows.extract::<Option<String>>();
        let name = name.map_err(|_| wrong(object, "follows", "a name in beside", &follows))?;
        self.beside.follow(object, name.as_deref())
    }

    /// Calls a method, if the class defines it and nothing was raised before.
    fn call<A>(&mut self, method: fn(&Methods) -> &Option<Py<PyAny>>, argument: impl FnOnce() -> A)
    where
        A: for<'py> IntoPyObject<'py>,
    {
        if method(&self.methods).is_none() || self.raised.is_set() {
            return;
        }
        let called = Python::attach(|py| -> PyResult<()> {
            let (Some(method), Some(object)) = (method(&self.methods), &self.object) else {
                return Ok(());
            };
            method.bind(py).call1((argument(),))?;
            let object = object.clone_ref(py).into_bound(py);
            self.read(&object)
        });
        if let Err(error) = called {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: PyErr) {
        self.raised.set(error);
        *self = Self { ecn: self.ecn, ..Self::ended(self.raised.clone()) };
    }
}

fn epoch(object: &Bound<'_, PyAny>, start: Time) -> PyResult<Epoch> {
    let wish = object.getattr("epoch")?;
    let length = match wish.extract::<String>() {
        Ok(text) => parse_span(&text).map_err(|error| PyValueError::new_err(error.to_string()))?,
        Err(_) if wish.is_none() => DEFAULT_EPOCH,
        Err(_) => return Err(wrong(object, "epoch", "a time such as '5ms'", &wish)),
    };
    if length < MIN_EPOCH {
        return Err(PyValueError::new_err(format!("epoch: {length} is below {MIN_EPOCH}")));
    }
    Ok(Epoch { length, next: start + length, sums: EpochEvent::default() })
}

/// The error about an attribute that is not what it should be.
fn wrong(object: &Bound<'_, PyAny>, name: &str, wanted: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let class = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    let found = found.repr().map(|text| text.to_string()).unwrap_or_default();
    PyTypeError::new_err(format!("{class}.{name} must be {wanted}; it is {found}"))
}

/// A number that is not negative; `None`: it is none.
fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    value.extract::<f64>().ok().filter(|value| *value >= 0.0)
}

fn bytes(value: &Bound<'_, PyAny>) -> Option<u64> {
    // Infinity is no bound, as the seam has it.
    number(value).map(|bytes| bytes as u64)
}

fn seconds(at: Time) -> f64 {
    at.as_secs_f64()
}

impl Controller for PyController {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.beside.on_sent(packet);
        if let Some(epoch) = &mut self.epoch {
            epoch.sums.sent(packet);
        }
        self.call(|methods| &methods.on_sent, || PacketEvent::sent(packet));
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.beside.on_ack(ack);
        if let Some(epoch) = &mut self.epoch {
            epoch.sums.acked(ack);
        }
        self.call(|methods| &methods.on_ack, || AckEvent::of(ack));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.beside.on_loss(loss);
        if let Some(epoch) = &mut self.epoch {
            epoch.sums.lost(loss);
        }
        self.call(|methods| &methods.on_loss, || LossEvent::of(loss));
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.beside.on_mark(mark);
        self.call(|methods| &methods.on_mark, || MarkEvent::of(mark));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.beside.on_timeout(timeout);
        self.call(|methods| &methods.on_timeout, || TimeoutEvent::of(timeout));
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        self.beside.on_spurious(spurious);
        match spurious {
            Spurious::Timeout { now } => {
                self.call(|methods| &methods.on_spurious_timeout, || seconds(*now));
            }
            Spurious::Loss { packet, .. } => {
                self.call(|methods| &methods.on_spurious_loss, || PacketEvent::acked(packet));
            }
        }
    }

    fn on_path_change(&mut self, now: Time) {
        self.beside.on_path_change(now);
        self.call(|methods| &methods.on_path_change, || seconds(now));
    }

    fn ecn(&self) -> Ecn {
        self.ecn.unwrap_or(Ecn::NotEct)
    }

    fn permit(&self) -> Permit {
        self.beside.permit().unwrap_or(Permit::Window(self.cwnd))
    }

    fn pacing(&self) -> Option<Pacing> {
        if let Some(followed) = self.beside.pacing() {
            return followed;
        }
        self.pacing.map(|rate| Pacing { rate, burst: BURST_PACKETS * self.mss })
    }

    fn next_deadline(&self) -> Option<Time> {
        let epoch = self.epoch.as_ref().map(|epoch| epoch.next);
        [epoch, self.deadline, self.beside.next_deadline()].into_iter().flatten().min()
    }

    fn rto(&self) -> Option<Span> {
        self.beside.rto()
    }

    fn failure(&self) -> Option<String> {
        self.raised.text()
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.beside.on_ecn_failed(now);
    }

    fn on_frame(&mut self, frame: &Frame) {
        self.beside.on_frame(frame);
    }

    fn on_block(&mut self, block: &Block) {
        self.beside.on_block(block);
    }

    fn target_rate(&self) -> Option<Rate> {
        self.beside.target_rate()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let Some(object) = self.object.as_ref().filter(|_| self.methods.shows) else { return };
        match Python::attach(|py| values_of(object.bind(py))) {
            Ok(values) => values.into_iter().for_each(|(name, value)| show(name, value)),
            Err(error) => self.raised.set(error),
        }
    }

    fn on_deadline(&mut self, now: Time) {
        self.beside.on_deadline(now);
        if let Some(epoch) = self.epoch.as_mut().filter(|epoch| now >= epoch.next) {
            epoch.next = (epoch.next + epoch.length).max(now + MIN_EPOCH);
            let sums = epoch.sums.take(now);
            self.call(|methods| &methods.on_epoch, || sums);
        }
        let Some(own) = self.deadline.filter(|own| now >= *own) else { return };
        // A class that sets a deadline and not the next one would otherwise be called for ever.
        self.deadline = None;
        self.call(|methods| &methods.on_deadline, || seconds(now));
        if self.deadline.is_some_and(|next| next <= now.max(own)) {
            let text = format!("next_deadline must lie after now, {} s", seconds(now));
            self.fail(PyValueError::new_err(text));
        }
    }
}
