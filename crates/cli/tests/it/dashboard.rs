//! `--dashboard` of the commands that have it, as a browser and Prometheus meet it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;

use crate::program;
use crate::program::dashboard::{Dashboard, Events};
use crate::program::guinea::{Guinea, can_run, connect, data, read_all};
use crate::program::{Folder, signal};
use serde_json::Value;

fn sum<'a>(of: impl IntoIterator<Item = &'a Value>, field: &str) -> u64 {
    of.into_iter().map(|value| value[field].as_u64().unwrap()).sum()
}

#[test]
fn downloads_under_run_appear_move_and_end_and_their_sums_are_those_of_json() {
    if !can_run() {
        return;
    }
    const SIZE: usize = 3_000_000;
    let folder = Folder::with(&SIZE.to_string(), data(SIZE));
    let flows = folder.path("flows.jsonl");
    let options = format!("--cc cubic --driver gate --dashboard 0 --json {}", flows.display());
    let mut guinea = Guinea::with(&options, &format!("http {}", folder.path("").display()));
    let port = guinea.port();
    let dashboard = Dashboard::of(&guinea.folder.path("stderr"));
    let mut events = Events::of(&dashboard, "");
    let (name, hello) = events.next().unwrap();
    assert_eq!((name.as_str(), &hello["subject"]), ("hello", &"cubic".into()));
    // Slow enough to be seen moving.
    let mut slow = connect(([127, 0, 0, 1], port).into());
    write!(slow, "GET /{SIZE} HTTP/1.0\r\n\r\n").unwrap();
    let row = loop {
        let (name, data) = events.next().unwrap();
        let row = data["rows"].as_array().and_then(|rows| rows.first().cloned());
        if let Some(row) = row.filter(|_| name == "flows") {
            break row;
        }
    };
    assert!(row[1].as_str().unwrap().starts_with(&format!("127.0.0.1:{port} <- ")), "{row}");
    dashboard.serves_everything("run");
    let mut inside = Events::of(&dashboard, &format!("flow={}", row[0]));
    let values = loop {
        let (name, data) = inside.next().unwrap();
        if name == "flow" && data["values"]["cwnd_pkts"].is_number() {
            break data["values"].clone();
        }
    };
    assert!(values["cwnd_pkts"].as_f64().unwrap() > 0.0, "{values}");
    let mut received = Vec::new();
    slow.read_to_end(&mut received).unwrap();
    assert!(received.len() > SIZE);
    for _ in 0..2 {
        let mut stream = connect(([127, 0, 0, 1], port).into());
        write!(stream, "GET /{SIZE} HTTP/1.0\r\n\r\n").unwrap();
        assert!(read_all(&stream).len() > SIZE);
    }
    signal(&guinea.child, "INT");
    guinea.code();
    let mut seen = Vec::new();
    while let Some((name, data)) = events.next() {
        seen.push((name, data));
    }
    let named =
        |name: &'static str| seen.iter().filter(move |event| event.0 == name).map(|event| &event.1);
    assert_eq!(named("opened").count(), 2, "the first was before");
    assert_eq!(named("closed").count(), 3);
    assert_eq!(seen.last().unwrap().0, "end");
    let text = fs::read_to_string(&flows).unwrap();
    let logged: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = &seen.last().unwrap().1["summary"];
    assert_eq!((&end["open"], &end["total"]), (&0.into(), &3.into()));
    for (ours, theirs) in [
        ("sent_bytes", "sent_bytes"),
        ("delivered_bytes", "acked_bytes"),
        ("received_bytes", "received_bytes"),
        ("lost", "retransmissions"),
    ] {
        assert_eq!(sum(named("closed"), ours), sum(&logged, theirs), "{ours}");
        assert_eq!(end[ours].as_u64(), Some(sum(&logged, theirs)), "{ours} at the end");
    }
    assert!(sum(&logged, "sent_bytes") > 3 * SIZE as u64);
}

#[test]
fn quiet_hides_the_link_and_other_addresses_are_refused() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.run("run --dashboard 0 -q -- true");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let outcome = folder.run("run --dashboard 0 -- true");
    assert!(outcome.stderr.starts_with("cellpace: live view at http://127.0.0.1:"));
    folder.refused("run --dashboard 0.0.0.0:0 -- true", "--dashboard-allow-remote");
    folder.refused("run --dashboard-allow-remote -- true", "--dashboard");
}

#[test]
fn an_address_in_use_is_named_before_anything_is_written() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = Folder::new();
    let port = taken.local_addr().unwrap().port();
    let outcome = folder.run(&format!("run --dashboard {port} --json x.json -- true"));
    outcome.complains(1, &format!("--dashboard: 127.0.0.1:{port}: "));
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn the_proxy_serves_page_data_and_figures() {
    let folder = Folder::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let mut command =
        folder.command(["proxy", "--listen", "0", "--to", &to.to_string(), "--dashboard"]);
    let mut child =
        command.stderr(fs::File::create(folder.path("stderr")).unwrap()).spawn().unwrap();
    let dashboard = Dashboard::of(&folder.path("stderr"));
    dashboard.serves_everything("proxy");
    assert!(dashboard.metrics().contains_key("cellpace_proxy_connections_open"));
    signal(&child, "TERM");
    assert_eq!(program::code(&mut child), Some(0));
}

#[test]
fn a_link_shows_its_flows_in_both_directions() {
    if !can_run() {
        return;
    }
    let folder = Folder::with(&1_000_000.to_string(), data(1_000_000));
    // It goes with the folder, also when the test fails.
    folder.write("go", "");
    let script =
        "while [ -e go ]; do curl -s -o got http://$CELLPACE_HOST:8000/1000000 || sleep 0.1; done";
    let far = "exec python3 -m http.server 8000";
    let args = ["link", "--trace", "constant:12mbit", "--rtt", "40ms", "--dashboard", "--far", far];
    let mut command = folder.command(args.into_iter().chain(["--", "sh", "-c", script]));
    let mut child =
        command.stderr(fs::File::create(folder.path("stderr")).unwrap()).spawn().unwrap();
    let Some(dashboard) = Dashboard::behind_link(&mut child, &folder.path("stderr")) else {
        return;
    };
    dashboard.serves_everything("link");
    let mut events = Events::of(&dashboard, "sort=delivered");
    loop {
        let (name, flows) = events.next().expect("the link runs");
        let Some(row) = flows["rows"].get(0).filter(|_| name == "flows") else { continue };
        if flows["summary"]["delivered_bytes"].as_u64() > Some(500_000) {
            let shown = row[1].as_str().unwrap();
            assert!(shown.contains(":8000"), "{shown}");
            assert!(shown.ends_with(" down") || shown.ends_with(" up"), "{shown}");
            break;
        }
    }
    assert!(dashboard.metrics()["cellpace_delivered_bytes_total"] > 0.0);
    fs::remove_file(folder.path("go")).unwrap();
    while let Some((name, _)) = events.next() {
        if name == "end" {
            assert_eq!(program::code(&mut child), Some(0));
            return;
        }
    }
    panic!("no end");
}

#[test]
fn a_probe_shows_both_directions() {
    let folder = Folder::new();
    let mut far = folder.start("probe --listen 0");
    let mut said = String::new();
    BufReader::new(far.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let at = said
        .split_whitespace()
        .find_map(|word| word.trim_end_matches(',').parse::<SocketAddr>().ok());
    let args =
        format!("probe {} --duration 1h --rate 1mbit --dashboard 0 --json probe.json", at.unwrap());
    let mut command = folder.command(args.split_whitespace());
    command.stdout(std::process::Stdio::null());
    let mut child =
        command.stderr(fs::File::create(folder.path("stderr")).unwrap()).spawn().unwrap();
    let dashboard = Dashboard::of(&folder.path("stderr"));
    dashboard.serves_everything("probe");
    let mut events = Events::of(&dashboard, "");
    loop {
        let (name, flows) = events.next().unwrap();
        if name == "flows" && flows["summary"]["delivered_bytes"].as_u64() > Some(100_000) {
            break;
        }
    }
    let state = dashboard.state();
    let names: Vec<_> = state["rows"].as_array().unwrap().iter().map(|row| &row[1]).collect();
    assert_eq!(names, ["up", "down"]);
    assert!(state["summary"]["rtt_ms"]["p50"].as_f64().unwrap() < 1000.0);
    signal(&child, "INT");
    assert_eq!(program::code(&mut child), Some(130));
    assert_eq!(std::iter::from_fn(|| events.next()).last().unwrap().0, "end");
    signal(&far, "TERM");
    program::code(&mut far);
}
