//! Built-in controllers that see all that a controller in Python sees, so that it may follow one of
//! them, or choose between their windows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cellpace_base::{Rate, Span, Time};
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, Frame, Loss, LostPacket, Mark, Pacing, Permit, SentPacket,
    Setup, Spurious, Stamp, Timeout,
};
use cellpace_lab::read_controller;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::refused;

/// Packets whose stamps are kept: those in flight, and lost ones that may arrive after all.
const MAX_STAMPED: u64 = 1 << 20;

const NO_PACING: u64 = u64::MAX;

/// What Python sees of one of them.
#[pyclass(frozen, module = "cellpace._native", name = "Beside")]
#[derive(Default)]
pub(crate) struct BesideState {
    cwnd: AtomicU64,
    /// Bytes per second, or [`NO_PACING`].
    pacing: AtomicU64,
}

#[pymethods]
impl BesideState {
    /// Bytes that may be in flight; infinity: no bound.
    #[getter]
    fn cwnd(&self) -> f64 {
        match self.cwnd.load(Ordering::Relaxed) {
            u64::MAX => f64::INFINITY,
            cwnd => cwnd as f64,
        }
    }

    /// Bytes per second, or `None`.
    #[getter]
    fn pacing(&self) -> Option<f64> {
        match self.pacing.load(Ordering::Relaxed) {
            NO_PACING => None,
            rate => Some(rate as f64),
        }
    }
}

/// One of them. Stamps are kept here by packet number, since several share the flow's packets.
struct Beside {
    name: String,
    controller: Box<dyn Controller>,
    stamps: BTreeMap<u64, Stamp>,
    shown: Py<BesideState>,
}

impl Beside {
    fn show(&self) {
        let shown = self.shown.get();
        shown.cwnd.store(self.controller.cwnd(), Ordering::Relaxed);
        let rate = self
            .controller
            .pacing()
            .map_or(NO_PACING, |pacing| pacing.rate.as_bytes_per_sec() as u64);
        shown.pacing.store(rate, Ordering::Relaxed);
    }

    fn stamp(&self, number: u64) -> Stamp {
        self.stamps.get(&number).copied().unwrap_or_default()
    }

    fn acked(&self, packet: &AckedPacket) -> AckedPacket {
        AckedPacket { stamp: self.stamp(packet.number), ..*packet }
    }

    fn on_sent(&mut self, packet: &SentPacket) {
        let stamp = self.controller.on_sent(packet);
        self.stamps.insert(packet.number, stamp);
        let oldest = packet.number.saturating_sub(MAX_STAMPED);
        while let Some(first) = self.stamps.first_entry().filter(|first| *first.key() < oldest) {
            first.remove();
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let packets: Vec<_> = ack.packets.iter().map(|packet| self.acked(packet)).collect();
        self.controller.on_ack(&Ack { packets: &packets, ..*ack });
        for packet in ack.packets {
            self.stamps.remove(&packet.number);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let stamped =
            |packet: &LostPacket| LostPacket { stamp: self.stamp(packet.number), ..*packet };
        let packets: Vec<_> = loss.packets.iter().map(stamped).collect();
        self.controller.on_loss(&Loss { packets: &packets, ..*loss });
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match *spurious {
            Spurious::Timeout { now } => self.controller.on_spurious(&Spurious::Timeout { now }),
            Spurious::Loss { now, packet } => {
                let packet = self.acked(packet);
                self.controller.on_spurious(&Spurious::Loss { now, packet: &packet });
            }
        }
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct AllBeside {
    all: Vec<Beside>,
    followed: Option<usize>,
}

impl AllBeside {
    /// Builds what the class attribute `beside` names, and puts what they show in its place.
    pub(crate) fn of(object: &Bound<'_, PyAny>, setup: &Setup) -> PyResult<Self> {
        let py = object.py();
        let wish = object.getattr("beside")?;
        let Ok(texts) = wish.extract::<BTreeMap<String, String>>() else {
            let (class, found) = (object.get_type().name()?, wish.repr()?);
            let text =
                format!("{class}.beside must be names and built-in controllers; it is {found}");
            return Err(PyTypeError::new_err(text));
        };
        let (shown, mut all) = (PyDict::new(py), Vec::new());
        for (name, text) in texts {
            let spec = read_controller(&text)
                .map_err(|error| refused(format!("beside: {name}: {error}")))?;
            if spec.has_receiver() {
                let text = format!("beside: {name}: `{text}` has a half at the receiver");
                return Err(refused(text));
            }
            let state = Py::new(py, BesideState::default())?;
            shown.set_item(&name, &state)?;
            let (controller, stamps) = (spec.build(setup.clone()), BTreeMap::new());
            let beside = Beside { name, controller, stamps, shown: state };
            beside.show();
            all.push(beside);
        }
        if !all.is_empty() {
            object.setattr("beside", shown)?;
        }
        Ok(Self { all, followed: None })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// From now on the one of this name decides what leaves; `None`: Python's object does.
    pub(crate) fn follow(&mut self, object: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<()> {
        self.followed = match name {
            None => None,
            Some(name) => match self.all.iter().position(|beside| beside.name == name) {
                Some(at) => Some(at),
                None => {
                    let class = object.get_type().name()?;
                    let names: Vec<_> = self.all.iter().map(|beside| &*beside.name).collect();
                    let names = names.join(", ");
                    let text =
                        format!("{class}.follows: no `{name}` in beside; there are: {names}");
                    return Err(PyTypeError::new_err(text));
                }
            },
        };
        Ok(())
    }

    fn followed(&self) -> Option<&dyn Controller> {
        self.followed.map(|at| &*self.all[at].controller)
    }

    pub(crate) fn permit(&self) -> Option<Permit> {
        self.followed().map(Controller::permit)
    }

    pub(crate) fn pacing(&self) -> Option<Option<Pacing>> {
        self.followed().map(Controller::pacing)
    }

    pub(crate) fn target_rate(&self) -> Option<Rate> {
        self.followed().and_then(Controller::target_rate)
    }

    pub(crate) fn rto(&self) -> Option<Span> {
        self.followed().and_then(Controller::rto)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.all.iter().filter_map(|beside| beside.controller.next_deadline()).min()
    }

    pub(crate) fn on_deadline(&mut self, now: Time) {
        let is_due =
            |beside: &&mut Beside| beside.controller.next_deadline().is_some_and(|at| at <= now);
        for beside in self.all.iter_mut().filter(is_due) {
            beside.controller.on_deadline(now);
            beside.show();
        }
    }

    pub(crate) fn on_sent(&mut self, packet: &SentPacket) {
        self.each(|beside| beside.on_sent(packet));
    }

    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) {
        self.each(|beside| beside.on_ack(ack));
    }

    pub(crate) fn on_loss(&mut self, loss: &Loss<'_>) {
        self.each(|beside| beside.on_loss(loss));
    }

    pub(crate) fn on_mark(&mut self, mark: &Mark<'_>) {
        self.each(|beside| beside.controller.on_mark(mark));
    }

    pub(crate) fn on_timeout(&mut self, timeout: &Timeout) {
        self.each(|beside| beside.controller.on_timeout(timeout));
    }

    pub(crate) fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        self.each(|beside| beside.on_spurious(spurious));
    }

    pub(crate) fn on_path_change(&mut self, now: Time) {
        self.each(|beside| beside.controller.on_path_change(now));
    }

    pub(crate) fn on_ecn_failed(&mut self, now: Time) {
        self.each(|beside| beside.controller.on_ecn_failed(now));
    }

    pub(crate) fn on_frame(&mut self, frame: &Frame) {
        self.each(|beside| beside.controller.on_frame(frame));
    }

    /// The refused packet was stamped by none of them that could be told from the others.
    pub(crate) fn on_block(&mut self, block: &Block) {
        let block = Block { stamp: Stamp::default(), ..*block };
        self.each(|beside| beside.controller.on_block(&block));
    }

    fn each(&mut self, tell: impl Fn(&mut Beside)) {
        for beside in &mut self.all {
            tell(beside);
            beside.show();
        }
    }
}
