//! Flows with real packets: `cellpace send` with controllers in Python.

use std::cell::RefCell;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use cellpace_base::{parse_bytes, parse_span};
use cellpace_cc::ControllerSpec;
use cellpace_lab::FieldError;
use cellpace_lab::transfer::{
    OwnKey, Transfer, TransferConditions, TransferFlow, TransferView, made_up, read_key,
    shown_address,
};
use cellpace_report::indented;
use cellpace_udp::{Driver, Endpoint, EndpointConfig, FlowRequest, Patience, Protection};
use pyo3::prelude::*;

use crate::compare::ControllerWish;
use crate::error::{Failure, without_python};
use crate::own::{Raised, own_controller};
use crate::runs::interrupted;

/// What the peer is told of a controller that it does not know. It needs none of its own for one
/// without a half at the receiver, but refuses names that are not in its registry.
const UNKNOWN_TO_PEER: &str = "fixed";

/// What one call of `send` asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SendRequest {
    host: String,
    port: u16,
    cc: Vec<ControllerWish>,
    bytes: Option<String>,
    duration: Option<String>,
    unreliable: bool,
    mtu: u16,
    timeout: String,
    seed: u64,
    key: Option<PathBuf>,
    plain: bool,
}

/// Sends made-up bytes, one flow under each controller, and returns the document of
/// `cellpace send --json`.
#[pyfunction]
pub(crate) fn send(py: Python<'_>, wish: SendRequest) -> PyResult<String> {
    without_python(py, move || {
        let raised = Raised::default();
        let mut view = StoppableView { raised: raised.clone(), interrupted: RefCell::default() };
        let sent = transfer(wish, &raised, &mut view);
        match raised.take().or_else(|| view.interrupted.take()) {
            Some(error) => Err(error.into()),
            None => sent,
        }
    })
}

fn transfer(
    wish: SendRequest,
    raised: &Raised,
    view: &mut StoppableView,
) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Refused(error.to_string());
    let bytes = wish.bytes.as_deref().map(parse_bytes).transpose();
    let bytes = FieldError::of("bytes", bytes)?;
    let duration = wish.duration.as_deref().map(parse_span).transpose();
    let duration = FieldError::of("duration", duration)?;
    let silence = FieldError::of("timeout", parse_span(&wish.timeout))?;
    let place = format!("{}:{}", wish.host, wish.port);
    let found = (wish.host.as_str(), wish.port).to_socket_addrs();
    let found = found.map_err(|error| failed(&format!("{place}: {error}")))?.next();
    let peer = found.ok_or_else(|| failed(&format!("{place}: no address")))?;
    let (secret, new_id) = Driver::secrets().map_err(|error| failed(&error))?;
    let config = EndpointConfig {
        mtu: wish.mtu,
        patience: Patience { silence },
        seed: wish.seed,
        protection: FieldError::of("key", protection(wish.key.as_deref(), wish.plain))?,
        ..EndpointConfig::default()
    };
    let mut session = Transfer::new(Driver::new(Endpoint::new(config, secret, new_id)), view);
    session.duration = duration;
    session.cut_at_interrupt = true;
    for cc in wish.cc {
        let name = cc.name().to_owned();
        let spec = spec(cc, raised)?;
        let way = session.driver.connect(peer);
        let way = way.map_err(|error| failed(&format!("{}: {error}", shown_address(peer))))?;
        let now = session.driver.now();
        let request = FlowRequest { controller: Some(spec), unreliable: wish.unreliable };
        let id = session.driver.endpoint.connect(now, peer, way, &request);
        if let (Some(bytes), Some(flow)) = (bytes, session.driver.endpoint.flow_mut(id)) {
            flow.limit_to(bytes);
        }
        let data = made_up(wish.unreliable, bytes);
        session.flows.push(TransferFlow::new(id, name, shown_address(peer), data));
    }
    let result = session.run(TransferConditions {
        role: "send",
        command: String::new(),
        unreliable: wish.unreliable,
        mtu: wish.mtu,
        seed: wish.seed,
    })?;
    match result.reasons.is_empty() {
        true => Ok(indented(&result.document)),
        false => Err(Failure::Refused(result.reasons.join("; "))),
    }
}

/// How datagrams are protected: by the key of a file, or the user's own one, or in plain form.
fn protection(key: Option<&Path>, plain: bool) -> Result<Protection, String> {
    let secret = match (key, plain) {
        (None, true) => return Ok(Protection::default()),
        (Some(_), true) => return Err("with plain=True there is no key".to_owned()),
        (Some(path), false) => {
            read_key(path).map_err(|why| format!("{}: {why}", path.display()))?
        }
        (None, false) => {
            let own = OwnKey::open().map_err(|why| format!("{why}; give one, or plain=True"))?;
            own.secret
        }
    };
    Ok(Protection::transfer(&secret))
}

fn spec(cc: ControllerWish, raised: &Raised) -> Result<ControllerSpec, FieldError> {
    match cc {
        ControllerWish::Own(_, make) => Ok(own_controller(UNKNOWN_TO_PEER, make, Some(raised))),
        text @ ControllerWish::Text(_) => text.spec(raised),
    }
}

/// Ends the transfer on Ctrl-C and on the first exception.
struct StoppableView {
    raised: Raised,
    interrupted: RefCell<Option<PyErr>>,
}

impl TransferView for StoppableView {
    fn on_lines(&mut self, _lines: &[String]) {}

    fn on_warning(&mut self, _text: &str) {}

    fn is_cancelled(&self) -> bool {
        let mut interrupt = self.interrupted.borrow_mut();
        if interrupt.is_none() && !self.raised.is_set() {
            *interrupt = interrupted();
        }
        self.raised.is_set() || interrupt.is_some()
    }
}
