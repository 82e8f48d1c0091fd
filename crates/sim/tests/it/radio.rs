//! Flows over radio layers, and over links with the jitter of HARQ.

use crate::common::Log;
use cellpace_base::{Span, Time};
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{FlowSpec, FlowTraffic, PingSpec, Scenario, TransferSpec, run, run_observed};

fn over(trace: &str, cc: &str, seconds: u64) -> Scenario {
    Scenario {
        flows: vec![FlowSpec::bulk(cc.parse().unwrap())],
        duration: Span::from_secs(seconds),
        seed: 3,
        ..Scenario::default()
    }
    .with_link(|link| link.down.trace = Some(trace.parse().unwrap()))
}

#[test]
fn handovers_of_a_radio_layer_act_on_the_path() {
    let scenario = over("radio:highway-700,buffer=lose", "cubic", 300);
    let outcome = run(&scenario).unwrap();
    let drive = outcome.radio.clone().unwrap();
    assert!(drive.events().len() >= 2, "{}", drive.events().len());
    assert!(outcome.figures.lost > 0);
    // Where nothing is lost in the air and the queue is deep, only handovers drop.
    let forwarded = run(&over("radio:highway-700", "fixed:cwnd=100pkts", 300)).unwrap();
    let failed = forwarded.radio.unwrap().events().iter().any(|event| event.is_failure);
    assert_eq!(forwarded.figures.lost > 0, failed);
    // The same seed, the same drive, whatever the controller.
    let other = run(&over("radio:highway-700,buffer=lose", "bbr", 300)).unwrap();
    assert_eq!(other.radio.unwrap(), drive);
    assert_eq!(outcome.figures, run(&scenario).unwrap().figures);
}

#[test]
fn a_run_longer_than_the_layer_draws_as_much_as_it_needs() {
    let outcome = run(&over("radio:highway-700,length=20s", "fixed:cwnd=20pkts", 60)).unwrap();
    assert_eq!(outcome.radio.unwrap().length(), Span::from_secs(60));
}

#[test]
fn controllers_are_told_of_handovers_only_if_that_is_asked_for() {
    let restarts = |trace: &str| {
        let mut log = Log::default();
        let outcome = run_observed(&over(trace, "bbr", 120), &mut log).unwrap();
        (outcome.radio.unwrap().events().len(), outcome.series.cwnd_packets)
    };
    let (silent, told) = (restarts("radio:highway-700"), restarts("radio:highway-700,signal=true"));
    assert!(silent.0 > 0 && silent.0 == told.0);
    assert_ne!(silent.1, told.1);
}

#[test]
fn transfers_know_the_radio_of_their_time() {
    let transfers = TransferSpec::parse("500kB,every=20s", &mut TraceFiles::none()).unwrap();
    let mut scenario = over("radio:highway-700", "cubic", 390);
    scenario.flows[0].traffic = FlowTraffic::Transfers(transfers);
    scenario.start_traces_at(Span::from_secs(30));
    let outcome = run(&scenario).unwrap();
    let drive = outcome.radio.unwrap();
    assert_eq!(outcome.transfers.len(), 20);
    for transfer in &outcome.transfers {
        // The drive began 30 s before the run.
        let at = |seconds: f64| Time::from_secs_f64(30.0 + seconds);
        let of_drive = drive.summary(at(transfer.start_s), at(transfer.end_s.unwrap())).unwrap();
        assert_eq!(transfer.cells, Some(of_drive.cells));
        assert!((transfer.mean_sinr_db.unwrap() - of_drive.mean_sinr_db).abs() < 1e-3);
        let changes = u64::from(of_drive.handovers + of_drive.failures);
        assert_eq!(transfer.handovers, changes);
    }
    assert!(outcome.transfers.iter().any(|transfer| transfer.cells > Some(1)));
    scenario.link.down.trace = Some("constant:12mbit".parse().unwrap());
    let without = run(&scenario).unwrap().transfers;
    assert!(without.iter().all(|transfer| (transfer.cells, transfer.mean_sinr_db) == (None, None)));
}

#[test]
fn a_radio_layer_goes_with_no_other_handovers() {
    let scenario = over("radio:city-1900", "cubic", 20).with_link(|link| {
        link.set_handovers(vec![cellpace_path::Handover::at(Time::from_secs(5))]);
    });
    let error = run(&scenario).unwrap_err().to_string();
    assert!(error.contains("`radio:city-1900` brings its own handovers"), "{error}");
}

#[test]
fn jitter_adds_to_the_delay_and_takes_no_capacity() {
    let with = |jitter: &str| {
        let jitter = jitter.parse().unwrap();
        run(&over("constant:12mbit", "fixed:cwnd=60pkts", 60)
            .with_link(|link| link.down.jitter = jitter))
        .unwrap()
        .figures
    };
    let (plain, late) = (with("none"), with("harq:bler=10%,rtt=8ms"));
    assert_eq!(late.lost, 0);
    assert!((late.throughput_mbps / plain.throughput_mbps - 1.0).abs() < 0.01);
    // A window of 60 packets keeps 20 ms in the queue; jitter takes from it what it adds.
    assert!((late.queue_delay_ms.mean - plain.queue_delay_ms.mean).abs() < 1.0);
}

/// Handshakes of downloads every 15 s, in ms, with or without pings beside them.
fn handshakes(rrc: &str, pings: Vec<PingSpec>) -> Vec<Option<f64>> {
    let text = "1MB,every=15s,handshake=true";
    let mut scenario = over("constant:12mbit", "cubic", 59);
    let transfers = TransferSpec::parse(text, &mut TraceFiles::none()).unwrap();
    scenario.flows[0].traffic = FlowTraffic::Transfers(transfers);
    let scenario = Scenario { pings, ..scenario };
    let outcome = run(&scenario.with_link(|link| link.down.rrc = rrc.parse().unwrap())).unwrap();
    outcome.transfers.iter().map(|transfer| transfer.handshake_rtt_ms).collect()
}

#[test]
fn the_handshake_of_an_idle_phone_waits_for_one_promotion() {
    // Each download takes one second, so that the phone is idle 11.6 s later. SYN and SYN-ACK share a promotion.
    assert_eq!(handshakes("lte", vec![]), [Some(301.0); 4]);
    // Two seconds outlast the timer of the first SYN: the RTT counts from the second, one second later.
    assert_eq!(handshakes("umts", vec![]), [1041.0, 41.0, 41.0, 41.0].map(Some));
    assert_eq!(handshakes("none", vec![]), [Some(41.0); 4]);
    let pings = vec![PingSpec::default()];
    assert_eq!(handshakes("lte", pings), [301.0, 41.0, 41.0, 41.0].map(Some));
}

#[test]
fn a_cell_has_no_rrc() {
    let text = "trace = 'lte-driving'\nrrc = 'lte'\n[cell]\n[[user]]\nname = 'a'\n\
                [[flow]]\ncc = 'cubic'\nuser = 'a'\n";
    let scenario = Scenario::from_toml("s", text, &mut TraceFiles::none());
    let error = scenario.and_then(|scenario| scenario.check()).unwrap_err().to_string();
    assert!(error.contains("rrc: each user of a cell"), "{error}");
}
