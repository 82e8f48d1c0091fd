//! The server as clients meet it: who gets what, and that no client can keep others from it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use cellpace_live::{
    LiveAbout, LiveConnections, LiveServer, MAX_CLIENTS, MAX_HEAD_BYTES, MAX_STREAMS, MetricKind,
    NewConnection, SharedFigures, metric_family,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

struct Served {
    server: LiveServer,
    connections: LiveConnections,
}

fn served() -> Served {
    let about = LiveAbout { command: "run", subject: "copa".to_owned(), ..LiveAbout::default() };
    let connections = LiveConnections::new(about);
    let more = Box::new(|| {
        let known = metric_family("more_figures", MetricKind::Gauge, "More.", [(vec![], 1.0)]);
        // The names of figures without samples are left out, and cost the others nothing.
        vec![metric_family("no_figures", MetricKind::Counter, "None.", []), known]
    });
    let address = "127.0.0.1:0".parse().unwrap();
    let server = LiveServer::start(address, connections.clone(), Some(more)).unwrap();
    Served { server, connections }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Served {
    fn open(&self, number: u64) -> SharedFigures {
        let source = SharedFigures::default();
        let name = format!("127.0.0.1:80 <- 127.0.0.1:{number}");
        let new = NewConnection {
            number,
            name,
            controller: "copa".into(),
            driver: "gate",
            source: Box::new(source.clone()),
        };
        self.connections.opened(new);
        source
    }

    fn token(&self) -> String {
        self.server.link().split_once("#k=").unwrap().1.to_owned()
    }

    /// The field that proves that a client has the link.
    fn key(&self) -> String {
        format!("Host: localhost\r\nAuthorization: Bearer {}\r\n", self.token())
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = connect(self.server.address());
        // It may have been refused before all was sent.
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    /// Head and body of the answer.
    fn answer(&self, request: &str) -> (String, String) {
        let mut text = Vec::new();
        self.send(request).read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn status(&self, request: &str) -> String {
        self.answer(request).0.split(' ').nth(1).unwrap().to_owned()
    }

    fn get(&self, path: &str, fields: &str) -> (String, String) {
        self.answer(&format!("GET {path} HTTP/1.1\r\n{fields}\r\n"))
    }

    /// A stream of events.
    fn events(&self, query: &str) -> Events {
        let request = format!("GET /api/events?{query} HTTP/1.1\r\n{}\r\n", self.key());
        let mut events = Events(BufReader::new(self.send(&request)));
        assert_eq!(events.line(), "HTTP/1.1 200 OK\r\n");
        while events.line() != "\r\n" {}
        events
    }

    fn gets_a_stream(&self) -> bool {
        let mut head = [0; 12];
        let request = format!("GET /api/events HTTP/1.1\r\n{}\r\n", self.key());
        self.send(&request).read_exact(&mut head).unwrap();
        head == *b"HTTP/1.1 200"
    }

    fn becomes(&self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "never {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Events(BufReader<TcpStream>);

impl Events {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    /// The next event's number, name and data; `None` at the end.
    fn next(&mut self) -> Option<(u64, String, Value)> {
        let (mut id, mut name) = (0, String::new());
        loop {
            let line = self.line();
            if line.is_empty() {
                return None;
            }
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.trim().parse().unwrap();
            } else if let Some(text) = line.strip_prefix("event: ") {
                text.trim().clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("data: ") {
                return Some((id, name, serde_json::from_str(text).unwrap()));
            }
        }
    }

    /// Skips to an event of this name.
    fn await_event(&mut self, name: &str) -> (u64, Value) {
        loop {
            let (id, found, data) = self.next().unwrap_or_else(|| panic!("no {name}"));
            if found == name {
                return (id, data);
            }
        }
    }
}

#[test]
fn the_page_is_there_for_everybody_and_its_data_for_those_with_the_link() {
    let served = served();
    let (head, body) = served.get("/", "Host: 127.0.0.1\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.starts_with("<!doctype html>"), "{head}");
    for field in [
        "Content-Security-Policy: default-src 'none'; script-src 'self'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin",
    ] {
        assert!(head.contains(field), "no {field} in {head}");
    }
    assert!(!head.contains("Access-Control") && !body.contains(&served.token()));
    for path in ["/api/state", "/api/events"] {
        let token = served.token();
        let wrong = [
            String::new(),
            "Authorization: Bearer 00000000000000000000000000000000\r\n".to_owned(),
            format!("Authorization: Basic {token}\r\n"),
            format!("Authorization: Bearer {}\r\n", &token[1..]),
        ];
        for field in wrong {
            let (head, body) = served.get(path, &format!("Host: localhost\r\n{field}"));
            assert!(head.starts_with("HTTP/1.1 401 Unauthorized"), "{field}: {head}");
            assert_eq!(body, "unauthorized\n", "no hint");
        }
        let in_address = format!("{path}?k={token}");
        assert!(served.get(&in_address, "Host: localhost\r\n").0.contains(" 401 "));
    }
    served.open(1);
    let (head, body) = served.get("/api/state", &served.key());
    assert!(head.contains("Content-Type: application/json"), "{head}");
    let state: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&state["schema"], &state["summary"]["open"]),
        (&"cellpace.live/1".into(), &1.into())
    );
}

#[test]
fn prometheus_needs_no_token_on_loopback_and_sees_no_peer() {
    let served = served();
    served.open(4711).update(|figures| figures.delivered_bytes = 9);
    let (head, body) = served.get("/metrics", "Host: localhost:9100\r\n");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let labels = r#"{command="run",controller="copa",driver="gate"}"#;
    assert!(body.contains(&format!("cellpace_connections_open{labels} 1\n")), "{body}");
    assert!(body.contains(&format!("cellpace_delivered_bytes_total{labels} 9\n")), "{body}");
    assert!(body.ends_with("# TYPE more_figures gauge\nmore_figures 1\n"), "{body}");
    assert!(!body.contains("4711") && !body.contains("no_figures"), "{body}");
    let about = LiveAbout::default();
    let everywhere =
        LiveServer::start("0.0.0.0:0".parse().unwrap(), LiveConnections::new(about.clone()), None);
    let everywhere =
        Served { server: everywhere.unwrap(), connections: LiveConnections::new(about) };
    let at = SocketAddr::from(([127, 0, 0, 1], everywhere.server.address().port()));
    let ask = |fields: &str| {
        let (mut stream, mut text) = (connect(at), String::new());
        write!(stream, "GET /metrics HTTP/1.1\r\n{fields}\r\n").unwrap();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("Host: 10.0.0.1\r\n").starts_with("HTTP/1.1 401"));
    assert!(ask(&everywhere.key()).starts_with("HTTP/1.1 200"));
}

#[test]
fn names_and_other_pages_are_refused() {
    let served = served();
    for path in ["/", "/metrics", "/api/state", "/api/events", "/nothing"] {
        let get = |fields: &str| {
            let key = format!("Authorization: Bearer {}\r\n", served.token());
            served.status(&format!("GET {path} HTTP/1.1\r\n{key}{fields}\r\n"))
        };
        assert_eq!(get("Host: evil.example\r\n"), "403", "{path}");
        assert_eq!(get("Host: localhost:1\r\nOrigin: http://evil.example\r\n"), "403", "{path}");
        assert_eq!(get(""), "403", "{path}");
    }
    assert_eq!(served.status("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), "400");
}

#[test]
fn requests_get_the_right_status() {
    let served = served();
    let get = |line: &str| served.status(&format!("{line}\r\nHost: [::1]:80\r\n\r\n"));
    assert_eq!(get("GET /live.css HTTP/1.1"), "200");
    assert_eq!(get("GET /metrics?a=b HTTP/1.0"), "200");
    assert_eq!(get("GET /index.html HTTP/1.1"), "404");
    assert_eq!(get("GET /../etc/passwd HTTP/1.1"), "404");
    assert_eq!(get("POST /api/state HTTP/1.1"), "405");
    assert_eq!(get("GET /"), "400");
    assert_eq!(served.status(&"a".repeat(MAX_HEAD_BYTES)), "431");
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(2 * MAX_HEAD_BYTES));
    assert_eq!(served.status(&long), "431");
    for path in ["/", "/metrics", "/main.js"] {
        let (get, body) = served.get(path, "Host: localhost\r\n");
        let (head, nothing) =
            served.answer(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((get, nothing.as_str()), (head, ""), "{path}");
        assert!(!body.is_empty());
    }
    let head = served.status(&format!("HEAD /api/events HTTP/1.1\r\n{}\r\n", served.key()));
    assert_eq!(head, "200");
}

#[test]
fn a_client_that_sends_no_request_is_let_go() {
    let served = served();
    let mut slow = served.send("GET / HTTP/1.1\r\nHost: loc");
    let start = Instant::now();
    let mut answer = Vec::new();
    match slow.read_to_end(&mut answer) {
        Ok(_) => assert!(answer.is_empty()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(start.elapsed() < PATIENCE, "it was not let go");
    assert_eq!(served.status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
}

#[test]
fn the_ninth_stream_gets_503() {
    let served = served();
    let mut streams: Vec<_> = (0..MAX_STREAMS).map(|_| served.events("")).collect();
    let (head, _) = served.get("/api/events", &served.key());
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("Retry-After"), "{head}");
    assert_eq!(served.status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200", "the page still");
    // When one is gone, another one may come.
    streams.pop();
    served.becomes("a free place", || served.gets_a_stream());
}

/// A user of this machine opens connections and asks for nothing, as many as it can.
#[test]
fn who_only_connects_keeps_nobody_from_the_figures() {
    let served = served();
    let stream = served.events("");
    let mut held = Vec::new();
    for _ in 0..10 {
        held.extend((0..MAX_CLIENTS).map(|_| connect(served.server.address())));
        let metrics = served.status("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(metrics, "200", "with {} connections of others", held.len());
    }
    // The first ones were closed for the later ones, and the stream was not.
    let mut stream = stream;
    served.open(1);
    stream.await_event("opened");
    let mut text = Vec::new();
    let closed = held[0].read_to_end(&mut text);
    assert!(closed.is_ok_and(|count| count == 0) || text.is_empty());
}

#[test]
fn a_client_that_takes_nothing_disturbs_nobody_and_is_closed() {
    let served = served();
    let sources: Vec<_> = (1..=500).map(|number| served.open(number)).collect();
    let stalled = served.events("rows=500");
    let mut others: Vec<_> = (1..MAX_STREAMS).map(|_| served.events("rows=1")).collect();
    let start = Instant::now();
    let mut round = 0;
    // Every row changes all the time, until the stalled one's place is free.
    while !served.gets_a_stream() {
        round += 1;
        sources.iter().for_each(|source| source.update(|figures| figures.lost = round));
        let before = Instant::now();
        others.iter_mut().for_each(|other| drop(other.await_event("flows")));
        assert!(before.elapsed() < Duration::from_secs(5), "the others wait");
        assert!(start.elapsed() < 2 * PATIENCE, "it is held for ever");
    }
    drop(stalled);
}

#[test]
fn a_stream_tells_what_happens_and_goes_on_where_it_broke_off() {
    let served = served();
    let mut first = served.events("");
    first.await_event("hello");
    let source = served.open(1);
    let (id, opened) = first.await_event("opened");
    assert_eq!(opened["connection"], "127.0.0.1:80 <- 127.0.0.1:1");
    source.update(|figures| figures.delivered_bytes = 1000);
    // Another one looks on while this one is away.
    let _other = served.events("");
    drop(first);
    served.open(2);
    let request =
        format!("GET /api/events HTTP/1.1\r\n{}Last-Event-ID: {id}\r\n\r\n", served.key());
    let mut again = Events(BufReader::new(served.send(&request)));
    assert_eq!(again.await_event("opened").1["id"], 2);
    let (_, flows) = again.await_event("flows");
    assert_eq!(flows["matching"], 2);
}

#[test]
fn the_end_comes_with_the_last_figures_and_waits_for_nobody() {
    let served = served();
    let key = served.key();
    let mut stream = served.events("");
    let idle = connect(served.server.address());
    stream.await_event("hello");
    let source = served.open(1);
    source.update(|figures| figures.delivered_bytes = 77);
    let Served { server, connections } = served;
    let start = Instant::now();
    let address = server.address();
    server.finish();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let (_, end) = stream.await_event("end");
    assert_eq!(end["summary"]["delivered_bytes"], 77);
    assert!(stream.next().is_none());
    assert!(!connections.has_viewers());
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
    drop((idle, key));
}

#[test]
fn while_nobody_looks_figures_are_read_for_the_history_alone() {
    let served = served();
    served.open(1);
    let mut stream = served.events("");
    served.becomes("some readings", || served.connections.readings() >= 2);
    stream.await_event("flows");
    drop(stream);
    served.becomes("no viewers", || !served.connections.has_viewers());
    let (readings, start) = (served.connections.readings(), Instant::now());
    for _ in 0..5 {
        assert_eq!(served.status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
    }
    let more = served.connections.readings() - readings;
    // Once every five seconds.
    assert!(more <= 1 + start.elapsed().as_secs() / 5, "{more} in {:?}", start.elapsed());
}
