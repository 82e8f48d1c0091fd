//! Parts of a scenario beside one another that have nothing to do with one another.

use std::io::{BufRead, Cursor};

use cellpace_measure::Figures;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{Outcome, Scenario, run};

/// Runs a scenario in TOML whose files are in memory.
fn ran_with(text: &str, files: &[(&str, &str)]) -> Outcome {
    let open = |name: &str| {
        let file = files.iter().find(|(known, _)| *known == name);
        let (_, text) = file.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new((*text).to_owned())) as Box<dyn BufRead>)
    };
    let scenario = Scenario::from_toml("s.toml", text, &mut TraceFiles::new(open));
    run(&scenario.unwrap_or_else(|error| panic!("{text}\n{error}"))).unwrap()
}

fn ran(text: &str) -> Outcome {
    ran_with(text, &[])
}

fn mbps(figures: &Figures, flow: usize) -> f64 {
    figures.per_flow[flow].throughput_mbps
}

/// The mean throughput in Mbit/s of the bins of 100 ms from `from` to `to`, in seconds.
fn between(outcome: &Outcome, from: usize, to: usize) -> f64 {
    let bins = &outcome.series.throughput_mbps[from * 10..to * 10];
    bins.iter().map(|mbps| f64::from(*mbps)).sum::<f64>() / bins.len() as f64
}

#[track_caller]
fn near(value: f64, wanted: f64, share: f64) {
    assert!((value / wanted - 1.0).abs() <= share, "{value} is not near {wanted}");
}

const BOTH_WAYS: &str = "[[flow]]\ncc = 'sprout'\nreverse = 'sprout'\n";
const WINDOW: &str = "[[flow]]\ncc = 'fixed:cwnd=10pkts'\n";

#[test]
fn a_flow_that_sends_both_ways_shares_with_one_that_does_not() {
    let path = "trace = 'constant:12mbit'\nuplink = 'constant:6mbit'\nduration = '30s'\n";
    let alone = ran(&format!("{path}{BOTH_WAYS}")).figures;
    let both = ran(&format!("{path}{BOTH_WAYS}[[flow]]\nudp = '8mbit'\n")).figures;
    near(mbps(&both, 1), 8.0, 0.01);
    assert!(mbps(&alone, 0) > 8.0, "{}", mbps(&alone, 0));
    // The rest, and what waited when the figures begin.
    assert!((1.0..4.1).contains(&mbps(&both, 0)), "{}", mbps(&both, 0));
    // Its data on the way back waits beside the acks of the other: 60 B of each of 500 packets a
    // second are 0.24 Mbit/s, so that they arrive.
    let acks = ran(&format!("{path}{BOTH_WAYS}{WINDOW}")).figures;
    assert!((1.0..3.01).contains(&mbps(&acks, 1)), "{}", mbps(&acks, 1));
}

#[test]
fn a_handover_interrupts_a_flow_that_sends_both_ways() {
    let handover = "[[handover]]\nat = '15s'\nlength = '2s'\nqueue = 'lost'\n";
    let path = "trace = 'constant:12mbit'\nuplink = 'constant:12mbit'\nduration = '40s'\n";
    let outcome = ran(&format!("{path}{BOTH_WAYS}{handover}"));
    assert_eq!(outcome.figures.handovers, 1);
    assert!(between(&outcome, 15, 17) < 0.2, "{}", between(&outcome, 15, 17));
    assert!(between(&outcome, 5, 15) > 8.0 && between(&outcome, 25, 40) > 8.0);
}

#[test]
fn pings_beside_a_flow_that_sends_both_ways_see_its_queues() {
    let path = "trace = 'constant:12mbit'\nuplink = 'constant:12mbit'\nduration = '30s'\n";
    let figures = ran(&format!("{path}{BOTH_WAYS}[[ping]]\nevery = '200ms'\n")).figures;
    let ping = &figures.pings[0];
    assert_eq!((ping.sent, ping.answered), (140, 140));
    let rtt = ping.rtt_ms.unwrap();
    // Both directions have a queue of Sprout's, of up to 100 ms at a confidence of 95 %.
    assert!((40.0..240.0).contains(&rtt.p50), "{rtt:?}");
    assert!(rtt.p50 > 42.0 + figures.queue_delay_ms.p50 / 2.0, "{rtt:?}");
}

#[test]
fn a_flow_that_sends_both_ways_uses_a_cell_and_a_hosts_own_queue() {
    let cell = "uplink = 'constant:12mbit'\nduration = '30s'\n[cell]\ncapacity = 'own'\n\
                [[user]]\nname = 'a'\ntrace = 'constant:12mbit'\n\
                [[user]]\nname = 'b'\ntrace = 'constant:12mbit'\n";
    let other = "[[flow]]\ncc = 'fixed:cwnd=200pkts'\nuser = 'b'\n";
    let figures = ran(&format!("{cell}{BOTH_WAYS}user = 'a'\n{other}")).figures;
    // The other one always has data: proportional fairness leaves each half of the TTIs.
    assert!((3.5..6.2).contains(&mbps(&figures, 0)), "{}", mbps(&figures, 0));
    near(mbps(&figures, 0) + mbps(&figures, 1), 12.0, 0.01);
    let host = "trace = 'constant:12mbit'\nuplink = 'constant:12mbit'\nduration = '30s'\n\
                bottleneck = 'sender'\nsndbuf = '23040B'\n";
    let figures = ran(&format!("{host}{BOTH_WAYS}")).figures;
    // Its socket has room for ten packets, which are in the queue of the device: 10 ms at most.
    assert!(figures.per_flow[0].refused > 0);
    assert!(figures.queue_delay_ms.max < 10.1, "{:?}", figures.queue_delay_ms);
    // Ten packets of 1490 B in each of the receiver's ticks of 20 ms.
    near(mbps(&figures, 0), 5.96, 0.05);
}

#[test]
fn a_ping_waits_in_the_queue_of_its_user() {
    let ping = |user: &str| {
        let text = format!(
            "uplink = 'constant:12mbit'\nduration = '20s'\n[cell]\ncapacity = 'own'\n\
             [[user]]\nname = 'busy'\ntrace = 'constant:12mbit'\n\
             [[user]]\nname = 'idle'\ntrace = 'constant:12mbit'\n\
             [[flow]]\ncc = 'fixed:cwnd=100pkts'\nuser = 'busy'\n\
             [[ping]]\nevery = '100ms'\nuser = '{user}'\n"
        );
        let ping = ran(&text).figures.pings.remove(0);
        assert_eq!(ping.answered, ping.sent);
        ping.rtt_ms.unwrap().p50
    };
    // 40 ms, and up to a TTI and an opportunity of the uplink of 1 ms each; behind 100 packets at
    // 12 Mbit/s, of which 40 are elsewhere, 60 ms more.
    assert!((40.0..42.1).contains(&ping("idle")), "{}", ping("idle"));
    near(ping("busy"), 100.0, 0.03);
}

#[test]
fn with_the_bottleneck_in_the_sender_a_handover_changes_the_rtt() {
    let text = format!(
        "trace = 'constant:100mbit'\nbottleneck = 'sender'\nduration = '20s'\n{WINDOW}\
         [[handover]]\nat = '10s'\nlength = '10ms'\nrtt = '80ms'\n"
    );
    let outcome = ran(&text);
    // Ten packets in each RTT and the time of a packet, 0.12 ms.
    near(between(&outcome, 3, 9), 0.12 / 0.04012, 0.01);
    near(between(&outcome, 12, 20), 0.12 / 0.08012, 0.01);
}

#[test]
fn with_the_bottleneck_in_the_sender_the_base_delay_of_its_trace_is_behind_it() {
    let text = |bottleneck: &str| {
        format!(
            "trace = 'cellreplay:heavy=h,light=h,delay=d'\nrtt = '10ms'\nduration = '20s'\n\
             bottleneck = '{bottleneck}'\n{WINDOW}"
        )
    };
    let files = [("h", "1\n"), ("d", "0 30\n10000 30\n")];
    let [sender, network] = ["sender", "network"].map(|at| ran_with(&text(at), &files).figures);
    // Ten packets in 10 ms, the 30 ms of the trace, and what one packet of a millisecond takes.
    for figures in [&sender, &network] {
        near(mbps(figures, 0), 0.12 / 0.041, 0.03);
    }
    // The delay of packets is that in front of the receiver's side of the link: nothing of it here.
    let delay = |figures: &Figures| figures.one_way_delay_ms.p50;
    assert!(delay(&sender) < 11.0 && delay(&network) > 30.0, "{} ms", delay(&sender));
}

#[test]
fn the_last_link_of_several_may_be_a_cell() {
    let text = "duration = '30s'\n[path.wired]\ntrace = 'constant:20mbit'\nrtt = '20ms'\n\
                [path.radio]\ntrace = 'constant:12mbit'\nrtt = '40ms'\n\
                [cell]\n[[user]]\nname = 'a'\n[[user]]\nname = 'b'\n\
                [[flow]]\ncc = 'cubic'\nuser = 'a'\n[[flow]]\ncc = 'cubic'\nuser = 'b'\n\
                [[flow]]\nudp = '10mbit'\npath = ['wired']\n\
                [[ping]]\nevery = '100ms'\nuser = 'a'\n";
    let figures = ran(text).figures;
    // The wired link leaves 10 Mbit/s, which is the bottleneck of the two.
    near(mbps(&figures, 0) + mbps(&figures, 1), 10.0, 0.03);
    near(mbps(&figures, 2), 10.0, 0.03);
    let slow = ran(&text.replace("udp = '10mbit'", "udp = '1mbit'")).figures;
    near(mbps(&slow, 0) + mbps(&slow, 1), 12.0, 0.02);
    near(mbps(&slow, 0), 6.0, 0.05);
    near(slow.utilization, 1.0, 0.02);
    assert!(slow.pings[0].rtt_ms.unwrap().p50 >= 60.0, "{:?}", slow.pings[0].rtt_ms);
}

const TWO_USERS: &str = "duration = '20s'\nskip = '0s'\nbin = '100ms'\n[cell]\n\
                         [[user]]\nname = 'a'\n[[user]]\nname = 'b'\n\
                         [[flow]]\nudp = '24mbit'\nuser = 'a'\n[[flow]]\nudp = '24mbit'\nuser = 'b'\n";

#[test]
fn a_handover_of_a_cell_interrupts_all_of_its_users() {
    let with = |handover: &str| {
        let cell = "trace = 'constant:12mbit'\nqueue = 'droptail:50pkts'\n";
        ran(&format!("{cell}{TWO_USERS}[[handover]]\nat = '10s'\nlength = '1s'\n{handover}"))
    };
    for handover in ["", "queue = 'lost'\n", "rtt = '80ms'\n", "rate = 'x0.5'\n"] {
        let outcome = with(handover);
        let figures = &outcome.figures;
        assert_eq!(figures.handovers, 1);
        // A packet leaves at its very end.
        assert!(between(&outcome, 10, 11) < 0.013, "{handover}: {}", between(&outcome, 10, 11));
        near(between(&outcome, 5, 10), 12.0, 0.01);
        near(between(&outcome, 12, 20), if handover.contains("x0.5") { 6.0 } else { 12.0 }, 0.01);
        near(mbps(figures, 0), mbps(figures, 1), 0.02);
        // All that the cell offered was used, but for 20 ms of empty path at the beginning.
        near(figures.utilization, 1.0, 0.01);
    }
    // Both queues of 50 packets and both packets in service are gone.
    let lost = |queue: &str| with(queue).figures.handover_drops;
    assert_eq!((lost("queue = 'kept'\n"), lost("queue = 'lost'\n")), (0, 102));
}

#[test]
fn impairments_of_a_cell_are_behind_it() {
    let with = |impair: &str| {
        ran(&format!("trace = 'constant:12mbit'\nimpair = '{impair}'\n{TWO_USERS}")).figures
    };
    // What is damaged or comes twice has crossed the cell, or does so once.
    near(with("corrupt=50%").throughput_mbps, 6.0, 0.02);
    near(with("duplicate=50%").throughput_mbps, 12.0, 0.01);
}

/// What `flows` do over one link, and over one in series behind a link that is nothing.
fn alone_and_in_series(link: &str, flows: &str) -> [Figures; 2] {
    ["", "[path.nothing]\n[path.radio]\n"].map(|path| {
        let mut figures = ran(&format!("duration = '20s'\n{path}{link}{flows}")).figures;
        figures.chain = None;
        figures
    })
}

#[test]
fn links_in_series_carry_flows_that_send_both_ways() {
    let link = "trace = 'constant:12mbit'\nuplink = 'constant:6mbit'\nrtt = '40ms'\n";
    let [alone, series] = alone_and_in_series(link, BOTH_WAYS);
    assert_eq!(alone, series, "in series with nothing");
    let figures = ran(&format!(
        "duration = '30s'\n[path.wired]\ntrace = 'constant:8mbit'\nuplink = 'constant:8mbit'\n\
         rtt = '20ms'\n[path.radio]\n{link}{BOTH_WAYS}\
         [[flow]]\nudp = '3mbit'\npath = ['radio']\n"
    ))
    .figures;
    // The wired link is the narrower one of the two for it.
    assert!((5.0..8.1).contains(&mbps(&figures, 0)), "{}", mbps(&figures, 0));
    near(mbps(&figures, 1), 3.0, 0.01);
}

#[test]
fn the_first_of_several_links_may_be_the_senders_own_device() {
    let text = |device: &str, rest: &str| {
        format!(
            "duration = '20s'\nbottleneck = 'sender'\n{device}trace = 'constant:12mbit'\n\
             rtt = '40ms'\nqueue = 'infinite'\n{rest}[[flow]]\ncc = 'fixed:cwnd=300pkts'\n"
        )
    };
    let alone = ran(&text("", "")).figures;
    let rest = "[path.rest]\ntrace = 'constant:1000gbit'\nrtt = '0ms'\n";
    let series = ran(&text("[path.device]\n", rest)).figures;
    // The socket has room for 92 packets, refuses others, and the queue is no longer than they are.
    for figures in [&alone, &series] {
        assert!(figures.per_flow[0].refused > 0);
        near(figures.queue_delay_ms.max, 92.0, 0.02);
    }
    near(series.throughput_mbps, alone.throughput_mbps, 0.001);
    near(series.rtt_ms_seen.p50, alone.rtt_ms_seen.p50, 0.001);
    let narrow = "[path.rest]\ntrace = 'constant:6mbit'\nrtt = '20ms'\n";
    near(ran(&text("[path.device]\n", narrow)).figures.throughput_mbps, 6.0, 0.01);
    let cell = format!("{narrow}[cell]\n[[user]]\nname = 'a'\n");
    let in_cell = format!("{}user = 'a'\n", text("[path.device]\n", &cell));
    near(ran(&in_cell).figures.throughput_mbps, 6.0, 0.01);
}

#[test]
fn with_the_bottleneck_in_the_sender_both_directions_have_a_base_delay() {
    let text = "trace = 'cellreplay:heavy=h,light=h,delay=d'\n\
                uplink = 'cellreplay:heavy=h,light=h,delay=u'\nrtt = '10ms'\nduration = '20s'\n\
                bottleneck = 'sender'\n";
    let files = [("h", "1\n"), ("d", "0 30\n10000 30\n"), ("u", "0 20\n10000 20\n")];
    let figures = ran_with(&format!("{text}{WINDOW}"), &files).figures;
    // Ten packets in 10 ms, the 30 and 20 ms of the traces, and a millisecond in each direction.
    near(mbps(&figures, 0), 0.12 / 0.062, 0.03);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let error = |text: &str| {
        let read = Scenario::from_toml("s.toml", text, &mut TraceFiles::none());
        read.map(|_| ()).unwrap_err().to_string()
    };
    let links = "[path.a]\n[path.b]\ntrace = 'constant:9mbit'\n";
    let cubic = "[[flow]]\ncc = 'cubic'\n";
    for (text, part) in [
        (
            format!("bottleneck = 'sender'\n{links}{cubic}path = ['b']\n"),
            "every `path` begins with `a`",
        ),
        (
            format!("{links}[pep]\ncc = 'cubic'\n{BOTH_WAYS}"),
            "reports travel on its data, does not go through a proxy",
        ),
        (
            format!("{links}[pep]\ncc = 'cubic'\n{cubic}stack = 'noq'\n"),
            "encrypted from end to end",
        ),
        (
            format!(
                "trace = 'constant:9mbit'\nbottleneck = 'sender'\n[cell]\n[[user]]\nname = 'a'\n\
                 {cubic}user = 'a'\n"
            ),
            "give the device a [path.NAME] in front of the cell",
        ),
    ] {
        assert!(error(&text).contains(part), "{text}: {}", error(&text));
    }
}
