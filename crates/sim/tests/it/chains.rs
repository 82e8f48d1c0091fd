//! Links in series, with and without a proxy in front of the last.

use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{Outcome, Scenario, run};

fn read(text: &str) -> Scenario {
    Scenario::from_toml("s.toml", text, &mut TraceFiles::none()).unwrap()
}

fn outcome(text: &str) -> Outcome {
    run(&read(text)).unwrap()
}

/// Two links without a limit, 20 and 40 ms, and `pep`; a transfer of 70 packets.
fn seventy_packets_ms(pep: &str) -> f64 {
    let text = format!(
        "duration = '2s'\nskip = '0s'\n\
         [path.wired]\nrtt = '20ms'\n\
         [path.radio]\ntrace = 'constant:1000gbit'\nrtt = '40ms'\n{pep}\n\
         [[flow]]\ncc = 'newreno:initial_window=10pkts'\ntransfer = {{ size = '101360B', count = 1 }}\n"
    );
    outcome(&text).transfers[0].completion_ms.unwrap()
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn g5_seventy_packets_take_the_rounds_of_each_leg() {
    let pep =
        |buffer: &str| format!("[pep]\ncc = 'newreno:initial_window=10pkts'\nbuffer = '{buffer}'");
    for (pep, expected) in [
        (String::new(), 150.0),
        (pep("1MB"), 110.0),
        (pep("infinite"), 110.0),
        (pep("20pkts"), 210.0),
    ] {
        let took = seventy_packets_ms(&pep);
        assert!((took - expected).abs() < 1.0, "{pep}: {took}");
    }
}

#[test]
fn g5_a_long_run_has_the_buffer_once_per_sum_of_the_rtts() {
    let out = outcome(
        "duration = '30s'\nskip = '5s'\n\
         [path.wired]\ntrace = 'constant:10gbit'\nrtt = '20ms'\n\
         [path.radio]\ntrace = 'constant:10gbit'\nrtt = '40ms'\n\
         [pep]\ncc = 'cubic'\nbuffer = '20pkts'\n[[flow]]\ncc = 'cubic'\n",
    );
    let expected = 20.0 * 1500.0 * 8.0 / 0.06 / 1e6;
    let got = out.figures.throughput_mbps;
    assert!((got / expected - 1.0).abs() < 0.02, "{got} of {expected}");
    let proxy = out.figures.chain.unwrap().proxy.unwrap();
    assert_eq!(proxy.held_max_bytes, 30_000);
    assert!(
        (proxy.wired.rtt_ms.p50 - 20.0).abs() < 1.0 && (proxy.radio.rtt_ms.p50 - 40.0).abs() < 1.0
    );
    // From the server to the phone: half of both RTTs and the time in the proxy.
    let delay = out.figures.one_way_delay_ms.mean;
    assert!((delay - 30.0 - proxy.time_ms.mean).abs() < 1.0, "{delay} {}", proxy.time_ms.mean);
}

#[test]
fn g5_bytes_in_are_bytes_out_and_the_buffer_has_its_size() {
    for (buffer, most) in
        [("1pkts", 1500), ("15pkts", 22_500), ("100kB", 100_000), ("infinite", u64::MAX)]
    {
        for keep in ["new", "keep"] {
            let text = format!(
                "duration = '120s'\nskip = '0s'\n\
                 [path.wired]\ntrace = 'constant:50mbit'\nrtt = '30ms'\nloss = '0.5%'\nuplink_loss = '5%'\n\
                 [path.radio]\ntrace = 'random:2mbit..20mbit/1s'\nrtt = '40ms'\nloss = '1%'\n\
                 [pep]\ncc = 'copa'\nbuffer = '{buffer}'\n\
                 [[flow]]\ncc = 'cubic'\n\
                 transfer = {{ size = '300kB', count = 5, gap = '100ms', connection = '{keep}' }}\n"
            );
            let out = outcome(&text);
            let complete = out.transfers.iter().filter(|t| t.completion_ms.is_some()).count();
            assert_eq!(complete, 5, "{buffer} {keep}");
            let proxy = out.figures.chain.unwrap().proxy.unwrap();
            assert!(proxy.held_max_bytes <= most, "{buffer}: {}", proxy.held_max_bytes);
            assert!(proxy.wired.retransmitted > 0 && proxy.radio.retransmitted > 0, "{buffer}");
            // Records are of the leg at the phone; 300 kB are 208 packets.
            let sent: u64 = out.transfers.iter().map(|t| t.packets_sent).sum();
            let again: u64 = out.transfers.iter().map(|t| t.retransmitted).sum();
            assert_eq!(
                (sent - again, again),
                (5 * 208, proxy.radio.retransmitted),
                "{buffer} {keep}"
            );
        }
    }
}

#[test]
fn g5_a_leg_that_is_nothing_leaves_the_other_as_it_is() {
    for cc in ["newreno", "cubic", "bic"] {
        let lte = "trace = 'lte-driving'\nrtt = '40ms'\n";
        let run = |links: &str, pep: &str, cc: &str| {
            let text = format!(
                "duration = '60s'\nskip = '2s'\n{links}{pep}\n[[flow]]\ncc = '{cc}'\n\
                 transfer = {{ size = '2MB', count = 4, gap = '1s' }}\n"
            );
            let out = outcome(&text);
            assert!(out.transfers.iter().all(|transfer| transfer.completion_ms.is_some()));
            (out.transfers, out.figures.queue_delay_ms, out.figures.rtt_ms_seen)
        };
        let alone = run(lte, "", cc);
        let series = format!("[path.nothing]\n[path.radio]\n{lte}");
        assert_eq!(run(&series, "", cc), alone, "{cc}: in series with nothing");
        let pep = format!("[pep]\ncc = '{cc}'\nbuffer = 'infinite'\n");
        // The proxy has all of the data at once and sends it on as the server would.
        let (mut transfers, queue, rtt) = run(&series, &pep, "newreno");
        transfers.iter_mut().for_each(|transfer| cc.clone_into(&mut transfer.cc));
        assert_eq!((transfers, queue, rtt), alone, "{cc}: behind a proxy");
    }
}

#[test]
fn g5_loss_on_the_radio_leg_costs_less_behind_the_proxy() {
    let throughput = |pep: &str| {
        let text = format!(
            "duration = '120s'\n\
             [path.wired]\ntrace = 'constant:1gbit'\nrtt = '80ms'\n\
             [path.radio]\ntrace = 'constant:20mbit'\nrtt = '40ms'\nloss = '0.1%'\n{pep}\n\
             [[flow]]\ncc = 'cubic'\n"
        );
        outcome(&text).figures.throughput_mbps
    };
    let (plain, proxied) = (throughput(""), throughput("[pep]\ncc = 'cubic'\nbuffer = '1MB'"));
    assert!(proxied >= 1.5 * plain, "{proxied} {plain}");
}

#[test]
fn g5_early_answers_save_a_part_of_the_servers_handshake() {
    let first_ms = |open: &str| {
        let text = format!(
            "duration = '5s'\nskip = '0s'\n\
             [path.wired]\nrtt = '60ms'\n\
             [path.radio]\ntrace = 'constant:100gbit'\nrtt = '40ms'\n\
             [pep]\ncc = 'cubic'\nopen = '{open}'\n\
             [[flow]]\ncc = 'cubic'\ntransfer = {{ size = '1kB', count = 1, handshake = true }}\n"
        );
        outcome(&text).transfers[0].completion_ms.unwrap()
    };
    let (late, early) = (first_ms("late"), first_ms("early"));
    assert!((late - 200.0).abs() < 1.0, "{late}");
    // SYN 20, then the proxy needs 60 to connect, while the phone has its answer after 40; then the
    // request 30, the data 30 and 20.
    assert!((early - 160.0).abs() < 1.0, "{early}");
}

#[test]
fn a_queue_in_bdp_counts_the_rtt_of_the_whole_chain_or_to_the_proxy() {
    let of = |pep: &str, [wired, radio]: [&str; 2]| {
        outcome(&format!(
            "duration = '20s'\nskip = '0s'\n\
             [path.wired]\ntrace = 'constant:24mbit'\nrtt = '60ms'\nqueue = 'droptail:{wired}'\n\
             [path.radio]\ntrace = 'constant:12mbit'\nrtt = '20ms'\nqueue = 'droptail:{radio}'\n\
             {pep}\n[[flow]]\ncc = 'cubic'\n"
        ))
        .figures
    };
    let pep = "[pep]\ncc = 'cubic'\nbuffer = '1MB'";
    assert_eq!(of("", ["1bdp", "1bdp"]), of("", ["240kB", "120kB"]));
    assert_eq!(of(pep, ["1bdp", "1bdp"]), of(pep, ["180kB", "30kB"]));
}

#[test]
fn g5_queues_of_all_links_are_told_apart() {
    let out = outcome(
        "duration = '20s'\n\
         [path.zebra]\ntrace = 'constant:12mbit'\nrtt = '20ms'\n\
         [path.second]\ntrace = 'constant:6mbit'\nrtt = '20ms'\nqueue = 'droptail:50pkts'\n\
         [path.middle]\ntrace = 'constant:24mbit'\nrtt = '20ms'\n\
         [path.a]\ntrace = 'constant:24mbit'\nrtt = '0ms'\n\
         [[flow]]\ncc = 'fixed:cwnd=60pkts'\n",
    );
    let chain = out.figures.chain.unwrap();
    assert!(chain.proxy.is_none());
    let names: Vec<&str> = chain.segments.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["zebra", "second", "middle", "a"], "in the order of the file");
    let delays: Vec<f64> = chain.segments.iter().map(|s| s.queue_delay_ms.p50).collect();
    // 6 Mbit/s and 60 ms are 30 packets: some 30 wait, at 2 ms each, all of them at the second link.
    assert!((55.0..64.0).contains(&delays[1]), "{delays:?}");
    assert!([0, 2, 3].iter().all(|link| delays[*link] < 2.5), "{delays:?}");
    let sum: f64 = delays.iter().sum();
    assert!((out.figures.queue_delay_ms.p50 - sum).abs() < 3.0);
    let base = out.figures.one_way_delay_ms.p50 - out.figures.queue_delay_ms.p50;
    assert!((base - 30.0).abs() < 0.5, "{base}");
    assert!((out.figures.capacity_mbps - 24.0).abs() < 0.1, "that of the last link");
}

#[test]
fn g5_a_closed_window_is_probed_when_the_message_of_room_is_lost() {
    // A buffer of one packet: every message counts, and every other is lost.
    let text = "duration = '300s'\nskip = '0s'\n\
                [path.wired]\nrtt = '20ms'\nuplink_loss = '50%'\n\
                [path.radio]\ntrace = 'constant:12mbit'\nrtt = '40ms'\n\
                [pep]\ncc = 'newreno'\nbuffer = '1pkts'\n\
                [[flow]]\ncc = 'newreno'\ntransfer = { size = '60kB', count = 3 }\n";
    let out = outcome(text);
    assert!(out.transfers.iter().all(|transfer| transfer.completion_ms.is_some()));
    let again = outcome(text);
    assert_eq!((again.transfers, again.figures), (out.transfers, out.figures), "the same seed");
}

#[test]
fn g5_flows_through_one_proxy_have_buffers_of_their_own() {
    let out = outcome(
        "duration = '30s'\nskip = '5s'\n\
         [path.wired]\nrtt = '20ms'\n\
         [path.radio]\ntrace = 'constant:24mbit'\nrtt = '40ms'\n\
         [pep]\ncc = 'copa'\nbuffer = '200kB'\n\
         [[flow]]\ncc = 'cubic'\ncount = 2\n\
         [[flow]]\ncc = 'cubic'\nonoff = { mean = '200kB', off = '500ms' }\n",
    );
    assert!(out.figures.utilization > 0.9, "{}", out.figures.utilization);
    let held = out.figures.chain.unwrap().proxy.unwrap().held_max_bytes;
    assert!((150_000..=200_000).contains(&held), "{held}");
    assert!(out.figures.per_flow.iter().all(|flow| flow.throughput_mbps > 1.0));
}

#[test]
fn g5_a_handover_is_reported_to_the_sender_in_front_of_it() {
    let text = |pep: &str| {
        format!(
            "duration = '10s'\n[path.wired]\nrtt = '20ms'\n\
             [path.radio]\ntrace = 'constant:12mbit'\n{pep}\n\
             [[flow]]\ncc = 'cubic'\n[[handover]]\nat = '5s'\nlength = '200ms'\nqueue = 'lost'\n"
        )
    };
    for pep in ["", "[pep]\ncc = 'cubic'\n"] {
        let figures = outcome(&text(pep)).figures;
        assert!(figures.handover_drops > 0 && figures.throughput_mbps > 9.0, "{pep}");
    }
}

#[test]
fn mistakes_in_chains_name_their_place() {
    let two = "[path.a]\n[path.b]\ntrace='constant:1mbit'\n";
    for (text, expected) in [
        ("[path.a]\nrtt = '1'\n[path.b]\n".to_owned(), "s.toml:2: rtt: `1` needs a unit"),
        (
            "[path.a]\ntrace='constant:1mbit'\n[pep]\ncc='cubic'\n[[flow]]\ncc='cubic'\n"
                .to_owned(),
            "s.toml:3: pep: a proxy stands between two links",
        ),
        ("[pep]\ncc='cubic'\n".to_owned(), "s.toml:1: pep: a proxy stands between two"),
        (
            "trace='constant:1mbit'\n[path.a]\ntrace='constant:1mbit'\n".to_owned(),
            "s.toml:1: trace: belongs into a [path.NAME]",
        ),
        (
            "[path.a]\n[path.b]\n[path.c]\n[path.d]\n[path.e]\ntrace='constant:1mbit'\n".to_owned(),
            "s.toml:5: path.e: is one link too many; the most in series are 4",
        ),
        ("[pep]\ncc = 'cubic'\nspeed = 'x'\n".to_owned(), "s.toml:3: unknown field `speed`"),
        ("[path.a]\nspeed = 'x'\n".to_owned(), "s.toml:2: unknown field `speed`"),
        ("[pep]\nbuffer = '1MB'\n".to_owned(), "s.toml:1: missing field `cc`"),
        (format!("{two}[pep]\ncc='cubics'\n"), "s.toml:5: cc: there is no controller `cubics`"),
        (format!("{two}[pep]\ncc='cubic'\nopen='soon'\n"), "s.toml:6: open: `soon` is neither"),
        (format!("{two}[pep]\ncc='cubic'\nbuffer='5'\n"), "s.toml:6: buffer: `5`"),
        (format!("{two}[pep]\ncc='cubic'\nbuffer=5\n"), "s.toml:6: buffer: 5 should have a unit"),
        ("[path.a]\n[path.b]\n[[flow]]\ncc='cubic'\n".to_owned(), "s.toml: trace: is missing"),
        (
            format!("{two}[[flow]]\ncc='cubic'\nrtt='3ms'\n"),
            "s.toml: flow 1: rtt: 3ms; its path has 40ms in the mean",
        ),
        (
            format!("{two}[[flow]]\ncc='cubic'\npath=['a', 'c']\n"),
            "s.toml: flow 1: path: there is no [path.c]",
        ),
        (
            format!("{two}[[flow]]\ncc='cubic'\npath=['b', 'a']\n"),
            "s.toml: flow 1: path: `b`, `a` are not one behind the other",
        ),
        (
            "trace='constant:1mbit'\n[[flow]]\ncc='cubic'\npath=['a']\n".to_owned(),
            "s.toml: flow 1: path: there are no [path.NAME]",
        ),
        (
            format!("{two}[pep]\ncc='cubic'\n[[flow]]\ncc='cubic'\npath=['b']\n"),
            "s.toml: pep: all flows lead over all links",
        ),
        (
            format!("{two}[pep]\ncc='cubic'\n[[flow]]\nudp='1mbit'\n"),
            "s.toml: pep: traffic without a controller",
        ),
        (
            "[path.a]\nloss='100%'\n[path.b]\ntrace='constant:1mbit'\n[[flow]]\ncc='cubic'\n"
                .to_owned(),
            "s.toml: path.a: loss: `100%`: when every packet is lost",
        ),
    ] {
        let error = Scenario::from_toml("s.toml", &text, &mut TraceFiles::none()).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with(expected), "{text}\n got {error}\n not {expected}");
    }
}

#[test]
fn a_proxy_without_a_limit_in_front_of_a_slow_link_is_refused_before_memory_is_full() {
    let error = run(&read(
        "duration = '60s'\n[path.wired]\n[path.radio]\ntrace = 'constant:1mbit'\n\
         [pep]\ncc = 'cubic'\nbuffer = 'infinite'\n[[flow]]\ncc = 'newreno'\n",
    ))
    .unwrap_err();
    assert!(error.to_string().contains("packets are in flight"), "{error}");
}

/// Three links of 10 Mbit/s and 10 ms each, `flows` behind them.
fn parking_lot(flows: &str) -> Outcome {
    let link = |name| {
        format!(
            "[path.{name}]\ntrace = 'constant:10mbit'\nrtt = '10ms'\nqueue = 'droptail:100pkts'\n"
        )
    };
    let links = ["a", "b", "c"].map(link).concat();
    outcome(&format!("duration = '40s'\nskip = '10s'\n{links}{flows}"))
}

#[test]
fn flows_of_a_parking_lot_share_each_link_that_they_cross() {
    let cubic = |path| format!("[[flow]]\ncc = 'cubic'\npath = {path}\n");
    let flows = ["['a', 'b', 'c']", "['a']", "['b']", "['c']"].map(cubic).concat();
    let figures = parking_lot(&flows).figures;
    let rates: Vec<f64> = figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect();
    for (cross, segment) in rates[1..].iter().zip(&figures.chain.as_ref().unwrap().segments) {
        assert!((segment.throughput_mbps - 10.0).abs() < 0.3, "{}", segment.throughput_mbps);
        assert!((rates[0] + cross - segment.throughput_mbps).abs() < 0.2, "{rates:?}");
    }
    // Three queues and three times the losses of the others.
    assert!(rates[0] > 0.5 && rates[1..].iter().all(|rate| *rate > 2.0 * rates[0]), "{rates:?}");
    assert!((0.97..=1.0).contains(&figures.utilization), "{}", figures.utilization);
}

#[test]
fn a_flow_has_the_rtt_and_the_room_of_its_links_alone() {
    let flow = |path, more| format!("[[flow]]\ncc = 'fixed:cwnd=1pkts'\npath = {path}\n{more}");
    let flows = [
        flow("['a']", ""),
        flow("['b', 'c']", ""),
        flow("['c']", "rtt = '50ms'\n"),
        "[[flow]]\nudp = '4mbit'\npath = ['b']\n".to_owned(),
    ];
    let figures = parking_lot(&flows.concat()).figures;
    for (flow, rtt_ms) in figures.per_flow.iter().zip([10.0, 20.0, 50.0]) {
        let least = flow.rtt_ms_seen.p50;
        // 1.2 ms on each link, the senders' jitter, and a packet of another flow.
        assert!((rtt_ms..rtt_ms + 6.0).contains(&least), "{least} ms of {rtt_ms}");
    }
    assert!((figures.per_flow[3].throughput_mbps - 4.0).abs() < 0.01);
    // One packet in 50 to 53 ms on the last link, and one in 20 to 26.
    assert!(figures.utilization < 0.09, "{}", figures.utilization);
}

#[test]
fn pings_cross_all_links_and_a_proxy() {
    let text = "[[ping]]\nevery = '100ms'\n[[flow]]\ncc = 'fixed:cwnd=1pkts'\n";
    for pep in ["", "[pep]\ncc = 'cubic'\n"] {
        let figures = parking_lot(&format!("{text}{pep}")).figures;
        let ping = &figures.pings[0];
        assert_eq!((ping.sent, ping.answered), (300, 300), "{pep}");
        let least = ping.rtt_ms.as_ref().unwrap().p50;
        // An opportunity each 1.2 ms on each link.
        assert!((30.0..34.0).contains(&least), "{least} ms");
    }
}

#[test]
fn flows_add_to_an_rtt_that_moves_or_changes() {
    for rtt in
        ["rtt = 'random:20ms..40ms/100ms'", "rtt = '30ms'\n[[handover]]\nat = '20s'\nrtt = '35ms'"]
    {
        let flows =
            ["", "rtt = '80ms'"].map(|own| format!("[[flow]]\ncc = 'fixed:cwnd=1pkts'\n{own}\n"));
        let (path, flows) =
            (format!("trace = 'constant:10mbit'\nduration = '40s'\n{rtt}\n"), flows.concat());
        let figures = outcome(&format!("{path}{flows}")).figures;
        let rtts: Vec<f64> = figures.per_flow.iter().map(|flow| flow.rtt_ms_seen.mean).collect();
        assert!((rtts[1] - rtts[0] - 50.0).abs() < 3.0, "{rtt}: {rtts:?}");
    }
}
