//! Controllers from modules do what the same law does without one, to the bit.

use cellpace_cc::{Ack, Controller, ControllerSpec, Loss, Permit, Random, Setup, Span, registry};
use cellpace_sim::{FlowSpec, Outcome, Scenario, Simulation};

use crate::program::{c_module, rust_module, spec};

fn scenario(cc: ControllerSpec) -> Scenario {
    let seconds = Span::from_secs(12);
    Scenario { duration: seconds, flows: vec![FlowSpec::bulk(cc)], ..Scenario::default() }
        .with_link(|link| {
            link.down.trace = Some("random:1mbit..20mbit/1s".parse().unwrap());
            link.down.queue = "droptail:60kB".parse().unwrap();
        })
}

/// The window and what is in flight, every 5 ms, and all figures.
fn course(cc: ControllerSpec) -> (Vec<(u64, u64)>, Outcome) {
    let mut simulation = Simulation::new(&scenario(cc)).unwrap();
    let mut windows = Vec::new();
    while !simulation.is_over() {
        simulation.advance(simulation.now() + Span::from_millis(5)).unwrap();
        let flow = simulation.flow(0).unwrap();
        windows.push((flow.controller().cwnd(), flow.in_flight()));
    }
    (windows, simulation.finish().unwrap())
}

fn same(name: &str, native: ControllerSpec, module: ControllerSpec) {
    let ((windows, native), (found, module)) = (course(native), course(module));
    if let Some(at) = windows.iter().zip(&found).position(|(a, b)| a != b) {
        let (native, module) = (&windows[at], &found[at]);
        panic!("{name}: after {} ms {native:?} and, in a module, {module:?}", 5 * (at + 1));
    }
    assert!(native.retransmissions > 0 || matches!(name, "fixed" | "gcc"), "{name} meets losses");
    assert_eq!(native.retransmissions, module.retransmissions, "{name}");
    let figures = |outcome: &Outcome| {
        let delay = &outcome.figures.queue_delay_ms;
        (outcome.figures.throughput_mbps, delay.p50, delay.p99)
    };
    assert_eq!(figures(&native), figures(&module), "{name}");
}

/// The law of both examples.
struct Halving {
    mss: u64,
    beta: f64,
    cwnd: u64,
    reduced_at: u64,
}

impl Controller for Halving {
    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.cwnd += (self.mss * ack.bytes()).div_ceil(self.cwnd);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if loss.packets.iter().any(|packet| packet.number >= self.reduced_at) {
            self.cwnd = ((self.cwnd as f64 * self.beta) as u64).max(2 * self.mss);
            self.reduced_at = loss.next_number;
        }
    }
}

fn halving(beta: f64) -> ControllerSpec {
    ControllerSpec::new("halving", move |Setup { mss, .. }| {
        Box::new(Halving { mss, beta, cwnd: 10 * mss, reduced_at: 0 })
    })
}

#[test]
fn the_example_in_c_has_the_windows_of_its_law() {
    let Some(module) = c_module() else {
        return cellpace_testing::skip("no clang that links WebAssembly");
    };
    same("C", halving(0.5), spec("plugin:halving.wasm", &module).unwrap());
    same("C", halving(0.7), spec("plugin:halving.wasm,beta=70%", &module).unwrap());
    let refused = |values: &str| {
        spec(&format!("plugin:halving.wasm,{values}"), &module).unwrap_err().to_string()
    };
    let unknown = "`plugin`: `halving.wasm` has no parameter `bta`; did you mean `beta`?";
    assert_eq!(refused("bta=1"), unknown);
    let range = "`plugin`: `halving.wasm`: beta=2 is out of range; allowed: 0.1..0.9 or 10%..90%";
    assert_eq!(refused("beta=2"), range);
    assert_eq!(refused("beta=0.5,beta=0.6"), "`plugin`: `halving.wasm`: `beta` is given twice");
}

#[test]
fn the_example_in_rust_has_the_windows_of_its_law() {
    let Some(module) = rust_module(&["-p", "plugin_rust"], "plugin_rust.wasm") else {
        return cellpace_testing::skip("no Rust for WebAssembly");
    };
    same("Rust", halving(0.5), spec("plugin:plugin_rust.wasm", &module).unwrap());
    same("Rust", halving(0.7), spec("plugin:plugin_rust.wasm,beta=0.7", &module).unwrap());
}

/// All of the seam crosses into the module: stamps, deadlines, budgets, pacing, timeouts.
#[test]
fn every_controller_of_the_registry_decides_the_same_in_a_module() {
    let example = ["-p", "cellpace-guest", "--example", "builtin"];
    let Some(module) = rust_module(&example, "examples/builtin.wasm") else {
        return cellpace_testing::skip("no Rust for WebAssembly");
    };
    let mut compared = 0;
    for (which, info) in registry().iter().enumerate() {
        let native: ControllerSpec = info.name.parse().unwrap();
        // The half at the receiver is not in the module; it draws no table of 20 ms for each flow, either.
        if native.has_receiver() || info.name == "mdi" {
            continue;
        }
        let drawn = native.clone();
        let native = ControllerSpec::new(info.name, move |setup| {
            let mut random = setup.random;
            drawn.build(Setup { random: Random::seeded(random.bits(), 0), ..setup })
        });
        same(info.name, native, spec(&format!("plugin:m,which={which}"), &module).unwrap());
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}
