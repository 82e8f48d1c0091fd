//! `cellpace run`, run as users run it, with programs in Python over loopback. Where there is no
//! Python, the tests say so and pass.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::program;
use crate::program::guinea::{
    GUINEA, Guinea, PATIENCE, PYTHON, can_run, connect, data, exchange, read_all,
};
use crate::program::{Folder, eventually, signal};
use serde_json::Value;

const SIZE: usize = 5_000_000;

/// A program that echoes: everything arrives, both ways.
#[track_caller]
fn echoes(mode: &str) {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start(mode);
    let stream = guinea.connect();
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE), "{mode}: other data came back");
    guinea.says("echoed True");
    guinea.ends_well();
}

/// A program that sends: everything arrives.
#[track_caller]
fn sends(mode: &str, size: usize) {
    let mut guinea = Guinea::start(mode);
    let stream = guinea.connect();
    assert!(read_all(&stream) == data(size), "{mode}: other data came");
    guinea.says(&format!("sent {size}"));
    drop(stream);
    guinea.ends_well();
}

// Real downloads.

#[test]
fn downloads_of_all_sizes_arrive_also_twenty_at_once() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let sizes = [0, 1, 1_000_000, 50_000_000];
    for size in sizes {
        folder.write(&size.to_string(), data(size));
    }
    let flows = folder.path("flows.jsonl").display().to_string();
    let mode = format!("http {}", folder.path("").display());
    let mut guinea = Guinea::with(&format!("--cc cubic -v --json {flows}"), &mode);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for size in sizes {
        assert!(download(address, size) == data(size), "{size} bytes");
    }
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(download(address, 1_000_000) == data(1_000_000)));
        }
    });
    sleep(Duration::from_millis(500));
    signal(&guinea.child, "INT");
    guinea.code();
    let errors = guinea.stderr();
    assert_eq!(errors.matches("cellpace: flow ").count(), 24, "{errors}");
    let text = String::from_utf8(folder.read("flows.jsonl")).unwrap();
    let flows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(flows.len(), 24);
    for flow in flows {
        assert_eq!(flow["schema"], "cellpace.run/1");
        assert_eq!(flow["local"], SocketAddr::to_string(&address));
        assert_eq!(flow["direction"], "in");
    }
}

#[test]
fn what_the_controllers_decide_is_written_for_each_connection() {
    if !can_run() {
        return;
    }
    let folder = Folder::with(&SIZE.to_string(), data(SIZE));
    for name in ["events.jsonl", "events.sqlog"] {
        let events = folder.path(name).display().to_string();
        let mode = format!("http {}", folder.path("").display());
        let mut guinea = Guinea::with(&format!("--cc verus:r=2 --events {events}"), &mode);
        let address = ([127, 0, 0, 1], guinea.port()).into();
        for _ in 0..2 {
            assert!(download(address, SIZE) == data(SIZE));
        }
        signal(&guinea.child, "INT");
        guinea.code();
        let text = String::from_utf8(folder.read(name)).unwrap();
        let records = text.lines().map(|line| serde_json::from_str(line.trim_matches('\x1e')));
        let records: Vec<Value> = records.map(Result::unwrap).collect();
        if name.ends_with(".sqlog") {
            assert_eq!(records[0]["trace"]["vantage_point"]["name"], "cellpace run");
            assert_eq!(records[0]["trace"]["title"], "verus:r=2");
        }
        for flow in 1..=2_u64 {
            // What is told, and of which flow, in both forms.
            let (kind, group, phase, state) = match name {
                "events.jsonl" => ("event", Value::from(flow), "phase", "metrics"),
                _ => (
                    "name",
                    Value::from(flow.to_string()),
                    "quic:congestion_state_updated",
                    "quic:recovery_metrics_updated",
                ),
            };
            let of_flow = |record: &&Value| record["flow"] == group || record["group_id"] == group;
            let told: Vec<&Value> = records.iter().filter(of_flow).collect();
            assert_eq!(told[0][kind], phase, "{text}");
            assert_eq!(told.last().unwrap()[kind], state, "{text}");
        }
    }
}

#[test]
fn g11_the_state_of_tcp_is_written_as_often_as_asked() {
    if !can_run() {
        return;
    }
    let folder = Folder::with(&SIZE.to_string(), data(SIZE));
    let events = folder.path("events.jsonl").display().to_string();
    let mode = format!("http {}", folder.path("").display());
    let options = format!("--driver gate --cc cubic --events {events} --events-every 10ms");
    let mut guinea = Guinea::with(&options, &mode);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    assert!(download(address, SIZE) == data(SIZE));
    signal(&guinea.child, "INT");
    guinea.code();
    let text = String::from_utf8(folder.read("events.jsonl")).unwrap();
    let states = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let states: Vec<Value> = states.filter(|state: &Value| state["event"] == "metrics").collect();
    let last = states.last().unwrap();
    assert!(last["tcp_cwnd"].as_u64().unwrap() >= 10 * 1000, "{last}");
    assert!(last["tcp_ssthresh"].is_null() || last["tcp_ssthresh"].is_u64(), "{last}");
    assert!(last["tcp_retransmissions"].is_u64() && last["tcp_unsent"].is_u64(), "{last}");
}

#[test]
fn g8_samples_of_a_program_that_was_killed_read() {
    if !can_run() {
        return;
    }
    // Loopback is fast: a connection is to last for some epochs of 5 ms.
    let size = 20 * SIZE;
    let folder = Folder::with(&size.to_string(), data(size));
    let samples = folder.path("samples.csv").display().to_string();
    let mode = format!("http {}", folder.path("").display());
    let options = format!("--driver gate --cc verus:r=2 --mdi-samples {samples} --mdi-users 1");
    let mut guinea = Guinea::with(&options, &mode);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for _ in 0..2 {
        assert!(download(address, size) == data(size));
    }
    // What ended is in the file, whatever becomes of the launcher.
    let rows = || cellpace_mdi::read_samples(&folder.read("samples.csv"));
    eventually("both connections have samples", || {
        rows().is_ok_and(|read| read.first().is_some_and(|flows| flows.chains.len() >= 2))
    });
    signal(&guinea.child, "KILL");
    guinea.child.wait().unwrap();
    let read = rows().unwrap();
    assert_eq!(read[0].users, 1);
    let packets: u64 = read[0].chains.iter().flatten().map(|sample| u64::from(sample.sent)).sum();
    // Full packets of loopback are large, and the first epoch has no row.
    assert!(packets > 0 && packets <= 2 * size as u64 / 500, "{packets}");
}

#[test]
fn events_that_cannot_be_written_are_told_of_before_the_program_starts() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::with("--events no/such/folder/events", "http .");
    assert_eq!(guinea.code(), Some(2));
    assert!(
        guinea.stderr().contains("no/such/folder/events: no such folder"),
        "{}",
        guinea.stderr()
    );
    assert_eq!(guinea.out.read_line(&mut String::new()).unwrap(), 0);
}

/// nginx registers the descriptor before it connects.
#[test]
fn an_nginx_in_between_has_its_connections_to_the_origin_taken_over() {
    if !Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
        cellpace_testing::skip("no nginx");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut request = Vec::new();
                let mut part = [0; 4096];
                while !request.ends_with(b"\r\n\r\n") {
                    let count = stream.read(&mut part).unwrap();
                    request.extend_from_slice(&part[..count]);
                }
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n").unwrap();
                stream.write_all(&data(SIZE)).unwrap();
            });
        }
    });
    let folder = Folder::new();
    let place = folder.path("").display().to_string();
    fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    folder.write(
        "nginx.conf",
        format!(
            "daemon off; worker_processes 2; pid {place}pid; error_log {place}error;
             events {{ worker_connections 512; }}
             http {{ access_log off; client_body_temp_path {place}body;
             proxy_temp_path {place}proxy; fastcgi_temp_path {place}fastcgi;
             uwsgi_temp_path {place}uwsgi; scgi_temp_path {place}scgi;
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{origin}; }}
             location /nobody {{ proxy_pass http://{nobody}; }} }} }}"
        ),
    );
    let args =
        ["run", "--cc", "cubic", "--in", "all", "--out", "all", "--json", "flows.jsonl", "--"];
    let config = folder.path("nginx.conf").display().to_string();
    let mut command = folder.command(args.into_iter().chain(["nginx", "-c", &config]));
    let errors = fs::File::create(folder.path("stderr")).unwrap();
    command.stdout(Stdio::piped()).stderr(errors).process_group(0);
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut guinea = Guinea { child, out, folder };
    let address = ([127, 0, 0, 1], port).into();
    let started = Instant::now();
    while TcpStream::connect(address).is_err() && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(20));
    }
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(download(address, SIZE) == data(SIZE)));
        }
    });
    let mut stream = connect(address);
    write!(stream, "GET /nobody HTTP/1.0\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_all(&stream)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    let errors = String::from_utf8(guinea.folder.read("error")).unwrap();
    assert!(errors.contains("Connection refused"), "{errors}");
    signal(&guinea.child, "QUIT");
    assert_eq!(guinea.code(), Some(0), "{}", guinea.stderr());
    let text = String::from_utf8(guinea.folder.read("flows.jsonl")).unwrap();
    let opened = text.lines().filter(|line| line.contains("\"out\""));
    let received = opened.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let received: Vec<_> = received.map(|flow| flow["received_bytes"].as_u64().unwrap()).collect();
    assert_eq!(received.len(), 20, "{text}");
    assert!(received.iter().all(|bytes| *bytes > SIZE as u64), "{received:?}");
}

#[test]
fn nginx_with_several_workers_works() {
    if !Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
        cellpace_testing::skip("no nginx");
        return;
    }
    for sendfile in ["on", "off"] {
        let folder = Folder::new();
        let sizes = [0, 1, 1_000_000, 50_000_000];
        for size in sizes {
            folder.write(&size.to_string(), data(size));
        }
        let place = folder.path("").display().to_string();
        // Workers are another user.
        fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        folder.write(
            "nginx.conf",
            format!(
                "daemon off; worker_processes 4; pid {place}pid; error_log stderr error;
                 events {{ worker_connections 512; }}
                 http {{ access_log off; sendfile {sendfile}; tcp_nopush on;
                 client_body_temp_path {place}body; proxy_temp_path {place}proxy;
                 fastcgi_temp_path {place}fastcgi; uwsgi_temp_path {place}uwsgi;
                 scgi_temp_path {place}scgi;
                 server {{ listen 127.0.0.1:{port} backlog=64; root {place}; }} }}"
            ),
        );
        let flows = folder.path("flows.jsonl").display().to_string();
        let config = folder.path("nginx.conf").display().to_string();
        let mut command = folder
            .command(["run", "--cc", "cubic", "--json", &flows, "--", "nginx", "-c", &config]);
        let errors = fs::File::create(folder.path("stderr")).unwrap();
        command.stdout(Stdio::piped()).stderr(errors).process_group(0);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut guinea = Guinea { child, out, folder };
        let address = ([127, 0, 0, 1], port).into();
        let started = Instant::now();
        while TcpStream::connect(address).is_err() && started.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20));
        }
        for size in sizes {
            assert!(download(address, size) == data(size), "{size} bytes, {}", guinea.stderr());
        }
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| assert!(download(address, 1_000_000) == data(1_000_000)));
            }
        });
        signal(&guinea.child, "QUIT");
        assert_eq!(guinea.code(), Some(0), "{}", guinea.stderr());
        let text = String::from_utf8(guinea.folder.read("flows.jsonl")).unwrap();
        assert!(text.lines().count() >= 24, "{text}");
    }
}

fn download(address: SocketAddr, size: usize) -> Vec<u8> {
    let mut stream = connect(address);
    write!(stream, "GET /{size} HTTP/1.0\r\n\r\n").unwrap();
    let answer = read_all(&stream);
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    answer[head + 4..].to_vec()
}

// How programs wait.

#[test]
fn epoll_level_triggered_works() {
    echoes("epoll lt");
}

#[test]
fn epoll_edge_triggered_works() {
    echoes("epoll et");
}

#[test]
fn connections_accepted_as_nonblocking_work() {
    echoes("accept4");
}

#[test]
fn poll_works() {
    echoes("poll");
}

#[test]
fn select_works() {
    echoes("select");
}

#[test]
fn sending_wakes_nobody_who_waits_for_something_to_read() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("idle");
    let stream = guinea.connect();
    let mut received = vec![0; 1_000_000];
    (&stream).read_exact(&mut received).unwrap();
    guinea.says("wakes 0");
}

#[test]
fn two_threads_may_use_a_connection() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("threads");
    let stream = guinea.connect();
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    guinea.says(&format!("received {SIZE}"));
    guinea.ends_well();
}

// Processes.

#[test]
fn preforked_workers_accept() {
    workers("prefork", 9);
}

#[test]
fn a_child_per_connection_works() {
    workers("fork_after", 3);
}

#[track_caller]
fn workers(mode: &str, connections: usize) {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start(mode);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    thread::scope(|scope| {
        for index in 0..connections {
            scope.spawn(move || {
                let sent = data(100_000 + index * 1000);
                assert!(exchange(&connect(address), &sent) == sent);
            });
        }
    });
    guinea.says("statuses [0, 0, 0]");
    guinea.ends_well();
}

#[test]
fn a_child_goes_on_after_its_parent_and_the_launcher_waits_for_it() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("orphan");
    let stream = guinea.connect();
    guinea.says("parent True");
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    assert_eq!(guinea.code(), Some(3), "the program's own code counts");
}

#[test]
fn an_executed_program_goes_on_with_the_connection() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("exec");
    let stream = guinea.connect();
    guinea.says("cloexec True");
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    guinea.says("status 0");
    guinea.ends_well();
}

#[test]
fn a_descriptor_can_be_passed_to_another_process() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("pass");
    let stream = guinea.connect();
    guinea.says("family AF_INET 127.0.0.1");
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    guinea.says("status 0");
    guinea.ends_well();
}

#[test]
fn servers_that_give_up_root_are_served() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::with("--cc cubic -v", "drop");
    let stream = guinea.connect();
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    assert!(guinea.line().starts_with("family 127.0.0.1 "));
    drop(stream);
    assert_eq!(guinea.code(), Some(0));
    assert!(guinea.stderr().contains("cellpace: flow 1: "), "it was not taken over");
}

#[test]
fn duplicates_and_close_range_work() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("dup");
    let stream = guinea.connect();
    let expected = [b"through 200\n".as_slice(), &data(SIZE)].concat();
    assert!(exchange(&stream, &data(SIZE)) == expected);
    guinea.says("done");
    guinea.ends_well();
}

// Ways to send.

#[test]
fn sendfile_and_splice_work() {
    if !can_run() {
        return;
    }
    let folder = Folder::with("file", data(SIZE));
    let file = folder.path("file").display().to_string();
    sends(&format!("sendfile {file}"), SIZE);
    sends(&format!("splice {file}"), SIZE);
}

#[test]
fn many_vectors_and_msg_more_work() {
    if !can_run() {
        return;
    }
    sends("vectors", SIZE);
    sends("more", 1_000_000);
}

// Ends.

#[test]
fn the_program_can_end_its_direction_first() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("half");
    let stream = guinea.connect();
    assert_eq!(read_all(&stream), b"that is all");
    (&stream).write_all(&data(SIZE)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    guinea.says(&format!("received {SIZE}"));
    guinea.ends_well();
}

#[test]
fn what_send_accepted_arrives_however_the_program_ends() {
    if !can_run() {
        return;
    }
    for (how, code) in [("close", 0), ("term", 143), ("kill", 137)] {
        let mut guinea = Guinea::start(&format!("queued {how}"));
        let stream = guinea.connect();
        let line = guinea.line();
        let accepted: usize = line.strip_prefix("accepted ").unwrap().parse().unwrap();
        assert!(accepted > 100_000, "{accepted}");
        sleep(Duration::from_millis(100));
        assert_eq!(read_all(&stream).len(), accepted, "{how}");
        drop(stream);
        assert_eq!(guinea.code(), Some(code));
    }
}

#[test]
fn writing_to_a_peer_that_went_away_fails_and_raises_sigpipe() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("gone");
    let stream = guinea.connect();
    (&stream).write_all(b"x").unwrap();
    sleep(Duration::from_millis(100));
    drop(stream);
    guinea.says("failed");
    guinea.says(&format!("signal {}", 13));
    guinea.ends_well();
}

// What the socket says of itself.

#[test]
fn names_are_those_of_the_connection_for_both_families() {
    if !can_run() {
        return;
    }
    for (listen, connect_to, peer, family) in [
        ("127.0.0.1 single", "127.0.0.1", "127.0.0.1", 2),
        ("::1 single", "::1", "::1", 10),
        (":: dual", "127.0.0.1", "::ffff:127.0.0.1", 10),
    ] {
        let mut guinea = Guinea::start(&format!("names {listen}"));
        let port = guinea.port();
        let stream = connect((connect_to.parse::<std::net::IpAddr>().unwrap(), port).into());
        let own = stream.local_addr().unwrap();
        let said = guinea.json();
        assert_eq!(said["accept"], said["peer"], "{listen}");
        assert_eq!(said["peer"][0], peer);
        assert_eq!(said["peer"][1], own.port());
        assert_eq!(said["own"][0], peer, "both ends have the same address here");
        assert_eq!(said["own"][1], port);
        assert_eq!(said["family"], family);
        assert_eq!(said["plain"], false, "it was not taken over");
        let full = if family == 2 { 16 } else { 28 };
        let line = guinea.line();
        assert!(line.starts_with(&format!("cut 0 {full} ")), "{line}");
        assert!(line.ends_with("eeeeee"), "written beyond the room there was: {line}");
        guinea.says("child True");
        assert!(guinea.line().ends_with(" 1"), "the listening socket is as it was");
    }
}

#[test]
fn options_are_those_of_the_connection() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("options");
    let stream = guinea.connect();
    // Less than the program sends, so that some of it stays unread however fast the machine is.
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4_096).unwrap();
    let said = guinea.json();
    for (name, expected) in [
        // Both are the engine's: TCP neither waits for an ack nor for more.
        ("nodelay", 1.into()),
        ("cork", 0.into()),
        ("short", "EINVAL".into()),
        ("keepalive", 1.into()),
        ("idle", 77.into()),
        ("tos", 0x10.into()),
        ("linger", vec![1, 5].into()),
        ("sndbuf", 100_000.into()),
        ("timeout", 7.into()),
        ("domain", 2.into()),
        ("protocol", 6.into()),
        ("type", 1.into()),
        ("error", 0.into()),
        ("state", 1.into()),
        ("mss", true.into()),
        ("congestion", true.into()),
        ("credentials", 0.into()),
        ("ulp", "ENOENT".into()),
        ("zerocopy", "ENOPROTOOPT".into()),
        ("lowat", "set".into()),
        ("unknown", "ENOPROTOOPT".into()),
        ("unknown_base", "ENOPROTOOPT".into()),
    ] {
        let expected: Value = expected;
        assert_eq!(said[name], expected, "{name} of {said}");
    }
    guinea.says("unread True");
    let mut received = vec![0; 100_003];
    (&stream).read_exact(&mut received).unwrap();
    guinea.says("left 0");
}

#[test]
fn other_sockets_are_left_alone() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("others");
    for expected in [
        "unix '' True",
        "tcp option EOPNOTSUPP",
        "stranger True",
        "accepted AF_UNIX",
        "udp ('127.0.0.1', 9)",
        "not a socket -1 ENOTSOCK",
        "not a socket -1 EBADF",
        "accept -1 EBADF",
    ] {
        guinea.says(expected);
    }
    guinea.ends_well();
}

#[test]
fn the_connection_that_the_library_keeps_is_in_nobodys_way() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let mut guinea = Guinea::start(&format!("kept {}", folder.path("file").display()));
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for expected in [
        ["first False", "kept [512]"].as_slice(),
        &["again False", "kept [512]"],
        &["replaced False", "written 0"],
        &["closed False"],
        &["child False"],
        &["parent False"],
    ] {
        let stream = connect(address);
        assert!(exchange(&stream, b"hello") == b"hello");
        drop(stream);
        expected.iter().for_each(|expected| guinea.says(expected));
    }
    guinea.ends_well();
}

// Rules.

#[test]
fn rules_decide_which_connections_are_taken_over() {
    if !can_run() {
        return;
    }
    for (options, plain) in [
        ("--not 127.0.0.0/8", "True"),
        ("--only 10.0.0.0/8", "True"),
        ("--only 127.0.0.1", "False"),
        ("--in 1", "True"),
        ("--in 1024-65535", "False"),
        ("--out 1", "True"),
        ("--in all --out all", "False"),
    ] {
        let mut guinea = Guinea::with(options, "plain 1");
        let stream = guinea.connect();
        assert!(exchange(&stream, b"hello") == b"hello");
        assert_eq!(guinea.line(), format!("plain {plain}"), "{options}");
        guinea.ends_well();
    }
}

#[test]
fn connections_that_the_program_opens_are_taken_over_on_request() {
    if !can_run() {
        return;
    }
    for (options, plain) in [("--in all --out all", "False"), ("--in all", "True")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut guinea = Guinea::with(options, &format!("open {port}"));
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
        drop(stream);
        guinea.says(&format!("plain {plain} True"));
        guinea.says("cloexec True");
        guinea.says(&format!("received {SIZE}"));
        guinea.ends_well();
    }
}

// Connections that the program does not wait for in `connect`.

/// A peer that sends back what comes, on so many connections.
fn echoing(listener: TcpListener, connections: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = stream.try_clone().unwrap();
            std::io::copy(&mut reader, &mut &stream).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
    })
}

#[test]
fn connections_that_are_not_awaited_are_taken_over_however_the_program_waits() {
    if !can_run() {
        return;
    }
    let ways = [
        ("poll", "4"),
        ("select", "1"),
        ("again", "0"),
        ("after", "1"),
        ("after-et", "1"),
        ("before", "1"),
        ("before-et", "1"),
        ("timeout", "1"),
    ];
    for (options, plain) in [("--in all --out all", "False"), ("--in all", "True")] {
        for (way, found) in ways {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let peer = echoing(listener, 1);
            let mut guinea = Guinea::with(options, &format!("later {way} {port}"));
            assert_eq!(guinea.line(), format!("found {found} 0 {plain}"), "{way} {options}");
            guinea.says("peer True 127.0.0.1");
            guinea.says("right True");
            guinea.ends_well();
            peer.join().unwrap();
        }
    }
}

#[test]
fn a_client_on_asyncio_is_taken_over_for_both_families() {
    if !can_run() {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        let address: std::net::IpAddr = host.parse().unwrap();
        let Ok(listener) = TcpListener::bind((address, 0)) else {
            cellpace_testing::skip(format_args!("no {host}"));
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let peer = echoing(listener, 1);
        let mut guinea = Guinea::with("--out 1-65535", &format!("asyncio {host} {port}"));
        guinea.says("plain False");
        guinea.says(&format!("peer {host}"));
        guinea.says("right True");
        guinea.ends_well();
        peer.join().unwrap();
    }
}

#[test]
fn who_did_not_wait_learns_that_nobody_listens() {
    if !can_run() {
        return;
    }
    for way in ["poll", "select", "again", "after", "after-et", "before", "before-et", "timeout"] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut guinea = Guinea::with("--out 1-65535", &format!("refused {way} {port}"));
        assert_eq!(guinea.line(), "code ECONNREFUSED", "{way}");
        if !["again", "timeout"].contains(&way) {
            guinea.says("peer ENOTCONN");
        }
        guinea.ends_well();
    }
}

/// A listener that answers nobody until it has accepted somebody.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    (listener, waiting)
}

#[test]
fn a_connection_on_its_way_looks_as_one_of_tcp() {
    if !can_run() {
        return;
    }
    for (options, plain) in [("--out 1-65535", "False"), ("--in all", "True")] {
        let (listener, _waiting) = full_listener();
        let port = listener.local_addr().unwrap().port();
        let mut guinea = Guinea::prepared(options, &format!("pending {port}"), |command| {
            command.stdin(Stdio::piped());
        });
        guinea.says(&format!("pending [] 0 EALREADY EAGAIN EAGAIN ENOTCONN {plain}"));
        let mut input = guinea.child.stdin.take().unwrap();
        input.write_all(b"close\n").unwrap();
        guinea.says("closed");
        // The launcher gives it up, too: nobody connects any more when there is room.
        let remote = format!(":{port:04X} 02 ");
        let until = Instant::now() + PATIENCE;
        while fs::read_to_string("/proc/net/tcp").unwrap().contains(&remote) {
            assert!(Instant::now() < until, "it is still being opened");
            sleep(Duration::from_millis(10));
        }
        input.write_all(b"end\n").unwrap();
        guinea.ends_well();
    }
}

#[test]
fn curl_and_what_it_uploads_and_downloads_are_taken_over() {
    let curl = Command::new("curl").arg("--version").stdout(Stdio::null()).status();
    if !curl.is_ok_and(|status| status.success()) {
        cellpace_testing::skip("no curl");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut part = vec![0; 1 << 16];
        let end = |got: &[u8]| got.windows(4).position(|window| window == b"\r\n\r\n");
        loop {
            let count = stream.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
            let Some(head) = end(&got) else { continue };
            if got.len() >= head + 4 + SIZE {
                break;
            }
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        stream.write_all(&data(SIZE)).unwrap();
        got.split_off(end(&got).unwrap() + 4)
    });
    let folder = Folder::with("up", data(SIZE));
    let options = "run --cc cubic --out all --json flows.jsonl --";
    let curl = format!("{options} curl -sS -f -H Expect: -T up -o down http://{address}/up");
    let outcome = folder.run(&curl);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert!(server.join().unwrap() == data(SIZE), "other data went up");
    assert!(folder.read("down") == data(SIZE), "other data came down");
    let flow: Value = serde_json::from_slice(&folder.read("flows.jsonl")).unwrap();
    assert_eq!((&flow["direction"], &flow["peer"]), (&"out".into(), &address.to_string().into()));
    assert!(flow["sent_bytes"].as_u64().unwrap() > SIZE as u64, "{flow}");
}

// When things fail.

/// What stands in front of a program's calls allocates nothing, so it needs no memory.
#[test]
fn a_program_whose_every_allocation_fails_has_its_connections_controlled() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    if !compile(&folder, "program", include_str!("guinea/no_memory.c"), "-D_GNU_SOURCE") {
        return cellpace_testing::skip("no C compiler");
    }
    let options = "run --cc cubic --driver gate --out all --in all --json flows.jsonl";
    let outcome = folder.run(&format!("{options} -- ./program"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert_eq!(outcome.stdout, "0 allocations\n");
    let flows = String::from_utf8(folder.read("flows.jsonl")).unwrap();
    assert_eq!(flows.lines().filter(|flow| flow.contains("\"outcome\":\"finished\"")).count(), 40);
}

/// What the launcher sends back needs a descriptor of the program: one that it cannot have must not cost
/// the connection.
#[test]
fn with_few_descriptors_left_connections_are_whole() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    if !compile(&folder, "program", include_str!("guinea/few_descriptors.c"), "-D_GNU_SOURCE") {
        return cellpace_testing::skip("no C compiler");
    }
    // The launcher gets along with more.
    let options = "run --cc cubic --driver gate --out all --in all --json flows --".split(' ');
    let command: Vec<_> = options.chain(["sh", "-c", "ulimit -n 64; exec ./program"]).collect();
    for _ in 0..5 {
        let outcome = folder.run_args(&command);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(0), "all\n"),
            "{}",
            outcome.stderr
        );
    }
    let flows = String::from_utf8(folder.read("flows")).unwrap();
    assert!(flows.lines().count() >= 10, "{flows}");
}

#[test]
fn without_descriptors_in_the_program_connections_are_plain() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("full");
    let stream = guinea.connect();
    guinea.says("plain True");
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    guinea.ends_well();
}

#[test]
fn without_descriptors_in_the_launcher_connections_are_plain() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("plain 2");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    let launcher = guinea.child.id().to_string();
    let open = program::names(format!("/proc/{launcher}/fd").as_ref());
    let limit = (0_u32..).find(|number| !open.contains(&number.to_string())).unwrap();
    let mut prlimit = Command::new("prlimit");
    let limited = prlimit.args(["--pid", &launcher, &format!("--nofile={limit}:{limit}")]).status();
    if !limited.is_ok_and(|status| status.success()) {
        cellpace_testing::skip("no prlimit");
        return;
    }
    for _ in 0..2 {
        let started = Instant::now();
        assert!(exchange(&connect(address), b"hello") == b"hello");
        guinea.says("plain True");
        assert!(started.elapsed() < Duration::from_secs(3), "the program was kept waiting");
    }
    guinea.ends_well();
}

#[test]
fn a_stopped_launcher_keeps_a_program_waiting_only_once() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("plain 3");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    signal(&guinea.child, "STOP");
    // Threads stop one after the other, when they are next scheduled.
    let tasks = format!("/proc/{}/task", guinea.child.id());
    let is_stopped = |task: &String| {
        let stat = fs::read_to_string(format!("{tasks}/{task}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    while !program::names(tasks.as_ref()).iter().all(is_stopped) {
        sleep(Duration::from_millis(1));
    }
    for patience in [15, 3, 3] {
        let started = Instant::now();
        assert!(exchange(&connect(address), b"hello") == b"hello");
        guinea.says("plain True");
        assert!(started.elapsed() < Duration::from_secs(patience));
    }
    signal(&guinea.child, "CONT");
    guinea.ends_well();
}

/// Who downloads must not take what came for everything, when the launcher dies and what it held is
/// lost.
#[test]
fn downloads_that_a_killed_launcher_cuts_short_are_reset() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::with("--driver gate --cc fixed:cwnd=20pkts", "filled 32");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    let mut streams: Vec<_> = (0..32).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.read_exact(&mut [0; 100_000]).unwrap();
    }
    guinea.says("filled");
    signal(&guinea.child, "KILL");
    guinea.child.wait().unwrap();
    for mut stream in streams {
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        let kind = end.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::ConnectionReset), "after {} bytes", rest.len());
    }
}

#[test]
fn a_program_reads_and_sets_its_own_linger_while_its_bytes_wait() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::with("--driver gate --cc fixed:cwnd=20pkts", "linger");
    let stream = guinea.connect();
    guinea.says("linger 0 0");
    let error = (&stream).read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    guinea.ends_well();
}

#[test]
fn without_a_launcher_connections_are_plain() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("plain 2");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    assert!(exchange(&connect(address), b"hello") == b"hello");
    guinea.says("plain False");
    signal(&guinea.child, "KILL");
    guinea.child.wait().unwrap();
    assert!(exchange(&connect(address), b"hello") == b"hello");
    guinea.says("plain True");
}

#[test]
fn a_wrong_token_or_other_rubbish_in_the_environment_means_plain_connections() {
    if !can_run() {
        return;
    }
    for setting in [
        "CELLPACE_TOKEN=00000000000000000000000000000000",
        "CELLPACE_TOKEN=rubbish",
        "CELLPACE_RULES=rubbish",
        "CELLPACE_CONTROL=cellpace-run/nobody",
        "CELLPACE_CONTROL=",
    ] {
        let folder = Folder::new();
        let mut command = folder.command(["run", "--", "env", setting, PYTHON, "-u", GUINEA]);
        command.args(["plain", "1"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.process_group(0).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut guinea = Guinea { child, out, folder };
        let stream = guinea.connect();
        assert!(exchange(&stream, b"hello") == b"hello");
        assert_eq!(guinea.line(), "plain True", "{setting}");
        assert_eq!(guinea.code(), Some(0));
    }
}

#[test]
fn signals_do_not_keep_connections_from_being_taken_over() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("signalled");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for _ in 0..20 {
        assert!(exchange(&connect(address), &data(100_000)) == data(100_000));
        guinea.says("taken True");
    }
    guinea.ends_well();
}

// The end of the patience for what is not delivered.

#[test]
fn connections_that_are_cut_are_told_of_and_reset() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let flows = folder.path("flows.jsonl").display().to_string();
    let options = format!("--cc cubic --drain 300ms -v --json {flows}");
    let mut guinea = Guinea::with(&options, "queued close");
    let stream = guinea.connect();
    let line = guinea.line();
    let accepted: u64 = line.strip_prefix("accepted ").unwrap().parse().unwrap();
    // Nothing is read until the launcher has ended.
    assert_eq!(guinea.code(), Some(0));
    let errors = guinea.stderr();
    assert!(errors.contains("cellpace: 1 connection was cut"), "{errors}");
    assert!(errors.contains("cellpace: flow 1: ") && errors.contains(", cut\n"), "{errors}");
    let flow: Value = serde_json::from_slice(&folder.read("flows.jsonl")).unwrap();
    assert_eq!((&flow["outcome"], &flow["flow"]), (&"cut".into(), &1.into()));
    assert!(flow["sent_bytes"].as_u64().unwrap() < accepted, "{flow}");
    let mut received = Vec::new();
    let error = (&stream).read_to_end(&mut received).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it must not look complete");
}

#[test]
fn several_workers_divide_connections_among_them() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let flows = folder.path("flows.jsonl").display().to_string();
    let with_workers = |options: &str, count: &str, mode: &str| {
        Guinea::prepared(options, mode, |command| {
            command.env("CELLPACE_WORKERS", count);
        })
    };
    let mut guinea = with_workers(&format!("--cc cubic --json {flows}"), "3", "plain 7");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for _ in 0..7 {
        assert!(exchange(&connect(address), &data(100_000)) == data(100_000));
        guinea.says("plain False");
    }
    guinea.ends_well();
    let text = String::from_utf8(folder.read("flows.jsonl")).unwrap();
    let flow = |line: &str| serde_json::from_str::<Value>(line).unwrap()["flow"].as_u64().unwrap();
    let mut flows: Vec<u64> = text.lines().map(flow).collect();
    flows.sort_unstable();
    assert_eq!(flows, [1, 2, 3, 4, 5, 6, 7], "one after the other has its turn");
    // Options are asked of the one that has the flow.
    let mut guinea = with_workers("--cc cubic", "2", "options");
    let _stream = guinea.connect();
    assert_eq!(guinea.json()["idle"], 77);
    let launcher = guinea.child.id();
    let tasks = format!("/proc/{launcher}/task");
    let open = |task: &String| program::names(format!("{tasks}/{task}/fd").as_ref());
    let tables = || {
        let mut tables: Vec<_> = program::names(tasks.as_ref()).iter().map(open).collect();
        tables.sort_unstable();
        tables.dedup();
        tables.len()
    };
    // A descriptor that opens or closes between two looks makes one table look like two.
    eventually("two tables of descriptors", || tables() == 2);
}

#[test]
fn without_memory_or_a_thread_in_the_launcher_connections_are_plain_until_there_is_some() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("plain 4");
    let address = ([127, 0, 0, 1], guinea.port()).into();
    let launcher = guinea.child.id().to_string();
    let pages = fs::read_to_string(format!("/proc/{launcher}/statm")).unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    // With larger pages the limit is lower still.
    let and_more = |bytes: u64| (pages * 4096 + bytes).to_string();
    // Not enough to begin with, and not enough for a thread's stack.
    for (limit, plain) in [
        (and_more(256 << 10), "True"),
        (and_more(1536 << 10), "True"),
        ("unlimited".to_owned(), "False"),
    ] {
        let limit = format!("--as={limit}:unlimited");
        let limited = Command::new("prlimit").args(["--pid", &launcher, &limit]).status();
        if !limited.is_ok_and(|status| status.success()) {
            cellpace_testing::skip("no prlimit");
            return;
        }
        assert!(exchange(&connect(address), &data(100_000)) == data(100_000));
        guinea.says(&format!("plain {plain}"));
    }
    assert!(exchange(&connect(address), b"hello") == b"hello");
    guinea.says("plain False");
    assert_eq!(guinea.code(), Some(0));
    let said = guinea.stderr();
    assert!(said.contains("2 connections stayed without a controller: descriptors or"), "{said}");
}

#[test]
fn each_connection_has_figures_over_time_on_standard_output_and_nothing_else_there() {
    if !can_run() {
        return;
    }
    let errors = |command: &mut Command| {
        command.stderr(Stdio::null());
    };
    let mut guinea = Guinea::prepared("--cc cubic --json - --report r.html", "plain 1", errors);
    // What the program prints goes to standard error; its port is found by what it listens at.
    let launcher = guinea.child.id();
    let port = Cell::new(None);
    eventually("listening", || {
        port.set(port_of_child(launcher));
        port.get().is_some()
    });
    let stream = connect(([127, 0, 0, 1], port.get().unwrap()).into());
    assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
    drop(stream);
    let flow: Value = serde_json::from_str(&guinea.line()).unwrap();
    assert_eq!(guinea.code(), Some(0));
    assert_eq!((&flow["schema"], &flow["cc"]), (&"cellpace.run/1".into(), &"cubic".into()));
    assert!(flow["command"].as_str().unwrap().starts_with("cellpace run --cc cubic -- "));
    assert!(program::number(&flow, "/throughput_mbps") > 0.0, "{flow}");
    assert!((0.0..=1.0).contains(&program::number(&flow, "/retransmitted")), "{flow}");
    assert!(program::number(&flow, "/rtt_ms_seen/p95") > 0.0, "{flow}");
    assert!(program::number(&flow, "/queue_delay_ms/p50") >= 0.0, "{flow}");
    let page = String::from_utf8(guinea.folder.read("r.html")).unwrap();
    assert!(page.contains("Throughput over time"), "the page has no charts");
    let series = &flow["series"];
    let rates = series["throughput_mbps"].as_array().unwrap();
    assert!(!rates.is_empty() && rates.iter().any(|rate| rate.as_f64() > Some(0.0)), "{flow}");
    for name in ["rtt_ms", "cwnd_bytes"] {
        assert_eq!(series[name].as_array().unwrap().len(), rates.len(), "{flow}");
    }
}

/// The port at which a child of a process listens.
fn port_of_child(parent: u32) -> Option<u16> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let child = children.split_whitespace().next()?;
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{child}/fd"))
        .ok()?
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.replace(']', "")))
        .collect();
    let table = fs::read_to_string(format!("/proc/{child}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_its = sockets.iter().any(|socket| socket == fields[9]);
        let port = fields[1].rsplit_once(':')?.1;
        (fields[3] == "0A" && is_its).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

// The launcher.

#[test]
fn signals_reach_the_program_and_its_exit_code_is_ours() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("wait");
    guinea.says("ready");
    for (name, number) in [("USR1", 10), ("HUP", 1), ("TERM", 15)] {
        signal(&guinea.child, name);
        guinea.says(&format!("signal {number}"));
    }
    assert_eq!(guinea.code(), Some(7));
}

#[test]
fn the_program_finds_limits_and_signals_as_without_us() {
    if !can_run() {
        return;
    }
    let mut guinea = Guinea::start("limits");
    let direct = Command::new(PYTHON).args([GUINEA, "limits"]).output().unwrap();
    let direct = String::from_utf8(direct.stdout).unwrap();
    for line in direct.lines() {
        guinea.says(line);
    }
    guinea.ends_well();
}

#[test]
fn exit_codes_are_the_programs_even_where_ends_of_children_are_ignored() {
    for (program, code) in [("exit 5", 5), ("kill -9 $$", 137), ("exit 0", 0)] {
        let line = format!("trap '' CHLD; exec \"$0\" run -- sh -c '{program}'");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line, env!("CARGO_BIN_EXE_cellpace")]).output().unwrap();
        assert_eq!(program::Outcome::of(output).code, Some(code), "{program}");
    }
}

#[test]
fn what_was_preloaded_before_stays_behind_us() {
    let folder = Folder::new();
    let mut command = folder.command(["run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let output = command.env("LD_PRELOAD", "libm.so.6").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.trim_end().ends_with("libcellpace.so:libm.so.6"), "{text}");
}

#[test]
fn other_allocators_do_no_harm() {
    if !can_run() {
        return;
    }
    let folder = "/usr/lib/x86_64-linux-gnu";
    for allocator in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        if !fs::exists(format!("{folder}/{allocator}")).unwrap() {
            cellpace_testing::skip(format_args!("no {allocator}"));
            continue;
        }
        let mut guinea = Guinea::prepared("--cc cubic", "plain 1", |command| {
            command.env("LD_PRELOAD", allocator);
        });
        let stream = guinea.connect();
        assert!(exchange(&stream, &data(SIZE)) == data(SIZE));
        guinea.says("plain False");
        guinea.ends_well();
    }
}

/// Whether the library is in the memory of the process whose map this is.
fn is_preloaded(maps: &[u8]) -> bool {
    String::from_utf8_lossy(maps).contains("libcellpace.so")
}

#[test]
fn a_program_that_was_copied_elsewhere_needs_nothing_beside_it() {
    let folder = Folder::new();
    let copy = folder.path("copy");
    fs::copy(env!("CARGO_BIN_EXE_cellpace"), &copy).unwrap();
    // A folder of temporary files whose name LD_PRELOAD cannot express, and one that it can.
    for (place, used) in [("tmp", "tmp"), ("a b:c", "cache")] {
        let mut command = Command::new(&copy);
        command.args(["run", "--", "cat", "/proc/self/maps"]).current_dir("/");
        fs::create_dir_all(folder.path(place)).unwrap();
        fs::create_dir_all(folder.path("cache")).unwrap();
        command.env("TMPDIR", folder.path(place)).env("XDG_CACHE_HOME", folder.path("cache"));
        let output = command.env_remove("XDG_RUNTIME_DIR").output().unwrap();
        assert!(is_preloaded(&output.stdout), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(program::names(&folder.path(used)).len(), 1, "{place}");
    }
}

#[test]
fn a_program_that_gives_up_root_still_finds_the_library() {
    if !rustix::process::geteuid().is_root() || !can_run() {
        return cellpace_testing::skip("not root, or no Python: no program gives up root");
    }
    let script = "import os; os.setuid(65534); os.execvp('cat', ['cat', '/proc/self/maps'])";
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    let output = command.args(["run", "--", "python3", "-c", script]).output().unwrap();
    assert!(is_preloaded(&output.stdout), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn folders_that_others_can_change_are_refused() {
    let folder = Folder::new();
    let place = folder.path("open");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = folder.command(["run", "--", "true"]);
    command.env("TMPDIR", &place).env_remove("XDG_RUNTIME_DIR").env_remove("XDG_CACHE_HOME");
    let output = command.env_remove("HOME").output().unwrap();
    program::Outcome::of(output).complains(1, "others can change it");
    assert_eq!(program::names(&place), [""; 0]);
}

#[test]
fn a_missing_library_is_said_with_where_it_was_looked_for() {
    let folder = Folder::new();
    let mut command = folder.command(["run", "--", "true"]);
    let outcome = command.env("CELLPACE_PRELOAD", "/nowhere/lib.so").output().unwrap();
    program::Outcome::of(outcome).complains(1, "/nowhere/lib.so");
}

// What is refused.

#[test]
fn wrong_arguments_are_named() {
    let folder = Folder::new();
    folder.refused("run --cc nonsense -- true", "--cc: there is no controller");
    folder.refused("run --in 80-70 -- true", "--in");
    folder.refused("run --in 80-70 -- true", "8000-8100");
    folder.refused("run --only 10.0.0.1/8 -- true", "--only");
    folder.refused("run --not x -- true", "--not");
    folder.refused("run --json /nowhere/at/all -- true", "no such folder");
    folder.refused("run --json o --events o -- true", "both write o");
    folder.refused("run --events - -- true", "needs a file");
    folder.refused("run --drain 5 -- true", "--drain");
    folder.refused("run --below nosuchcc -- touch started", "no congestion control `nosuchcc`");
    folder.refused("run nginx -g x", "put `--` in front of the program: -- nginx -g x");
    folder.refused("run --in 99999 -- true", "from 1 to 65535");
    folder.refused("run --max-connections 0 -- true", "--max-connections");
    folder.refused("run --share --driver client-server -- true", "--share");
    folder.refused("run --cc sprout -- true", "--cc: sprout needs a receiver half");
    let many = (0..65).map(|index| format!("10.0.0.{index}")).collect::<Vec<_>>().join(",");
    folder.refused(&format!("run --not {many} -- true"), "--not: more than 64");
}

#[test]
fn programs_that_are_not_there_give_the_shells_codes() {
    let folder = Folder::with("data", "x");
    folder.run("run -- no-such-program").complains(127, "no-such-program");
    folder.run("run -- ./data").complains(126, "./data");
}

#[test]
fn programs_that_cannot_be_preloaded_are_refused_with_a_hint() {
    let folder = Folder::new();
    for (name, source, flags, reason) in [
        ("static", "int main(){return 0;}", "-static", "statically"),
        ("pie", "int main(){return 0;}", "-static-pie", "statically"),
        ("musl", "int main(){return 0;}", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1", "musl"),
        (
            "golike",
            "__asm__(\".section .note.go.buildid,\\\"a\\\",@note\\n.long 4,4,4\\n\
             .asciz \\\"Go\\\\0\\\"\\n.asciz \\\"abc\\\"\\n.text\"); int main(){return 0;}",
            "-O1",
            "Go program",
        ),
    ] {
        if !compile(&folder, name, source, flags) {
            cellpace_testing::skip(format_args!("{name} does not compile here"));
            continue;
        }
        let outcome = folder.run(&format!("run -- ./{name}"));
        outcome.complains(126, reason);
        outcome.complains(126, "cellpace proxy");
        folder.write("script", format!("#!{}\n", folder.path(name).display()));
        fs::set_permissions(folder.path("script"), PermissionsExt::from_mode(0o755)).unwrap();
        folder.run("run -- ./script").complains(126, reason);
    }
    if compile(&folder, "other", "int main(){return 0;}", "-O1") {
        assert_eq!(folder.run("run -- ./other").code, Some(0));
        let path = folder.path("other");
        if std::os::unix::fs::chown(&path, Some(1), Some(1)).is_ok() {
            fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
            folder.run("run -- ./other").complains(126, "another user's rights");
        } else {
            cellpace_testing::skip("not root");
        }
    }
}

fn compile(folder: &Folder, name: &str, source: &str, flags: &str) -> bool {
    folder.write("source.c", source);
    let mut compiler = Command::new("cc");
    compiler.arg(flags).arg("-o").args([folder.path(name), folder.path("source.c")]);
    compiler.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn output_that_nothing_reads_stops_no_connection_and_no_end() {
    if !can_run() {
        return;
    }
    let folder = Folder::with("1", data(1));
    // What the program itself prints would wait for the reader, as without us.
    let script =
        format!("exec {PYTHON} -u {GUINEA} http {} 2>/dev/null", folder.path("").display());
    let mut command = folder.command(["run", "--cc", "copa", "-v", "--driver", "gate", "--"]);
    command.args(["sh", "-c", &script]).process_group(0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut guinea = Guinea { child, out, folder: Folder::with("stderr", "") };
    let errors = guinea.child.stderr.take().unwrap();
    rustix::pipe::fcntl_setpipe_size(&errors, 4096).unwrap();
    let address = ([127, 0, 0, 1], guinea.port()).into();
    for _ in 0..100 {
        assert!(download(address, 1) == data(1));
    }
    signal(&guinea.child, "TERM");
    assert_eq!(guinea.code(), Some(143));
}

#[test]
fn whom_the_launcher_waits_for_is_told() {
    let folder = Folder::new();
    let errors = fs::File::create(folder.path("stderr")).unwrap();
    let mut command = folder.command(["run", "--", "sh", "-c", "sleep 100; true"]);
    let mut child = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let said = || String::from_utf8(folder.read("stderr")).unwrap();
    let has_sleep = |parent: u32| {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let shell = children.split_whitespace().next().map(str::to_owned);
        shell.is_some_and(|shell| {
            let path = format!("/proc/{shell}/task/{shell}/children");
            !fs::read_to_string(path).unwrap_or_default().is_empty()
        })
    };
    eventually("started", || has_sleep(child.id()));
    signal(&child, "TERM");
    eventually("told", || said().contains("waiting for PID"));
    assert!(said().contains("(sleep)"), "{}", said());
    signal(&child, "TERM");
    assert_eq!(program::code(&mut child), Some(143));
}

#[test]
fn connections_without_a_controller_are_counted_with_the_reason() {
    if !can_run() {
        return;
    }
    let folder = Folder::with("1", data(1));
    let flows = folder.path("flows.jsonl").display().to_string();
    let mode = format!("http {}", folder.path("").display());
    let options = format!("--cc copa -v --max-connections 1 --driver gate --json {flows}");
    let mut guinea = Guinea::with(&options, &mode);
    let address = ([127, 0, 0, 1], guinea.port()).into();
    // The first holds the only place.
    let first = connect(address);
    eventually("told", || {
        assert!(download(address, 1) == data(1));
        guinea.stderr().contains("stays without a controller: as many are")
    });
    drop(first);
    eventually("ended", || guinea.stderr().contains("cellpace: flow "));
    signal(&guinea.child, "INT");
    guinea.code();
    let errors = guinea.stderr();
    assert!(errors.contains(" stayed without a controller: as many"), "{errors}");
    let text = String::from_utf8(folder.read("flows.jsonl")).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(last["uncontrolled"]["limit"].as_u64() >= Some(1), "{text}");
    assert!(last["tcp_cc"].is_string(), "{text}");
}

#[test]
fn programs_that_cannot_be_preloaded_are_told_of_with_their_connections() {
    let folder = Folder::with(
        "plain.c",
        "#include <stdio.h>\n#include <netinet/in.h>\n#include <sys/socket.h>\n#include <unistd.h>\n\
         int main(void) { struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}}; socklen_t l = sizeof at;\n\
         int s = socket(AF_INET, SOCK_STREAM, 0); bind(s, (void *)&at, l); listen(s, 8); getsockname(s, (void *)&at, &l);\n\
         printf(\"port %d\\n\", ntohs(at.sin_port)); fflush(stdout);\n\
         for (;;) { int c = accept(s, 0, 0); write(c, \"hello\", 5); } }\n",
    );
    let compiler = ["-w", "-static", "plain.c", "-o", "plain"];
    let made = Command::new("cc").args(compiler).current_dir(folder.path("")).output();
    if !made.is_ok_and(|output| output.status.success()) {
        cellpace_testing::skip("no C compiler that makes static programs");
        return;
    }
    let errors = fs::File::create(folder.path("stderr")).unwrap();
    let mut command = folder.command(["run", "-v", "--", "sh", "-c", "./plain; true"]);
    command.stdout(Stdio::piped()).stderr(errors).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().strip_prefix("port ").unwrap().parse().unwrap();
    let mut stream = connect(([127, 0, 0, 1], port).into());
    stream.read_exact(&mut [0; 5]).unwrap();
    let said = || String::from_utf8(folder.read("stderr")).unwrap();
    eventually("told", || said().contains("(plain) is linked statically"));
    eventually("counted", || said().contains("PID") && said().contains(": 1 new connections"));
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-TERM", "--", &group]).status().unwrap();
    program::code(&mut child);
    let said = said();
    assert!(said.contains("1 connection stayed without a controller: of programs that"), "{said}");
}
