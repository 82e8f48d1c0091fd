//! A controller that is logged for a Markov model must behave as if it were not.

use std::sync::{Arc, Mutex};

use cellpace_base::{Span, Time};
use cellpace_cc::{Controller, Event, Setup, registry};
use cellpace_lab::EpochLog;
use cellpace_mdi::{Axis, Chain, Counts, Relative, States};
use cellpace_path::PacketRecord;
use cellpace_sim::{FlowSpec, FlowTraffic, Observer, OnOffFiles, Scenario, run_observed};

type Chains = Arc<Mutex<Vec<Chain>>>;

/// Keeps everything that can be seen of a run.
#[derive(Default)]
struct Watch {
    /// Where the samples go, if there shall be any.
    chains: Option<Chains>,
    connections: u32,
    records: Vec<PacketRecord>,
    events: Vec<(u32, Time, Event)>,
}

impl Observer for Watch {
    fn on_record(&mut self, record: &PacketRecord) {
        self.records.push(*record);
    }

    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        self.events.push((flow, at, event));
    }

    fn on_connect(
        &mut self,
        _flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        self.connections += 1;
        match &self.chains {
            Some(chains) => {
                let chains = Arc::clone(chains);
                Box::new(EpochLog::new(controller, setup, chains))
            }
            None => controller,
        }
    }
}

/// Two flows, files and a bulk transfer, over a path with everything that can go wrong.
fn restless(cc: &str) -> Scenario {
    let bulk = FlowSpec::bulk(cc.parse().unwrap());
    let onoff = OnOffFiles {
        mean: 200e3,
        deviation: 100e3,
        max: 400e3,
        off: Span::from_millis(300),
        ..OnOffFiles::default()
    };
    let files = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk.clone() };
    Scenario { flows: vec![bulk, files], duration: Span::from_secs(15), ..Scenario::default() }
        .with_link(|link| {
            link.down.trace = Some("onoff:8mbit,on=3s,off=1s".parse().unwrap());
            link.up.trace = Some("onoff:1mbit,on=5s,off=700ms".parse().unwrap());
            link.down.queue = "red".parse().unwrap();
            link.down.loss = "0.5%".parse().unwrap();
        })
}

#[test]
fn a_watched_controller_behaves_as_if_it_were_not() {
    for info in registry() {
        let scenario = restless(info.name);
        let mut alone = Watch::default();
        let mut watched = Watch { chains: Some(Chains::default()), ..Watch::default() };
        let expected = run_observed(&scenario, &mut alone).unwrap();
        let outcome = run_observed(&scenario, &mut watched).unwrap();
        // As text: windows of flows without a connection are NaN, which is not even itself.
        let same = format!("{outcome:?}") == format!("{expected:?}");
        assert!(same, "{}: figures differ", info.name);
        assert!(watched.records == alone.records, "{}: packets differ", info.name);
        assert!(watched.events == alone.events, "{}: events differ", info.name);
        assert!(alone.records.len() > 1000, "{}: hardly anything was sent", info.name);
        assert!(watched.connections > 2, "{}: {} connections", info.name, watched.connections);
        let chains = watched.chains.unwrap();
        let chains = chains.lock().unwrap();
        assert!(chains.len() > 2, "{}: {} chains", info.name, chains.len());
        let longest = chains.iter().map(Vec::len).max().unwrap();
        assert!((2500..=3000).contains(&longest), "{}: {longest} epochs of 3000", info.name);
    }
}

#[test]
fn mdi_t13_a_teacher_of_constant_window_and_delay_has_one_state() {
    let scenario = Scenario {
        flows: vec![FlowSpec::bulk("fixed:cwnd=1pkts".parse().unwrap())],
        duration: Span::from_secs(10),
        ..Scenario::default()
    };
    let mut watch = Watch { chains: Some(Chains::default()), ..Watch::default() };
    run_observed(&scenario, &mut watch).unwrap();
    let chains = watch.chains.unwrap();
    let chains = chains.lock().unwrap();
    let axis = |name, end: i64| Axis::new(name, -end, end, 2000).unwrap();
    let (d, w) = (axis("delay", 10_000), axis("window", 20_000));
    let states = States::Relative(Relative { d, w }).check().unwrap();
    let counts = Counts::of(&states, &chains, None);
    // The first of 243 round trips of 41 ms ends in the ninth epoch, the last one in the 1993rd,
    // which nothing closes: 1984 samples, of which the first two make no transition.
    let cells: Vec<_> = counts.cells().iter().map(|c| (c.from, c.to, c.count)).collect();
    assert_eq!(cells, [(115, 115, 1982)]);
}
