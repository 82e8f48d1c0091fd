//! The live view of a command, as a browser and Prometheus meet it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::guinea::{PATIENCE, connect, read_all};

/// The live view of a command that runs.
pub(crate) struct Dashboard {
    pub(crate) address: SocketAddr,
    token: String,
}

impl Dashboard {
    /// Waits until a file has the link.
    pub(crate) fn of(stderr: &Path) -> Self {
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(stderr).unwrap_or_default();
            let link = text.lines().find_map(|line| line.split_once("live view at http://"));
            if let Some((address, token)) = link.and_then(|(_, link)| link.split_once("/#k=")) {
                return Self { address: address.parse().unwrap(), token: token.to_owned() };
            }
            assert!(start.elapsed() < PATIENCE, "no link: {text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same of a command that an emulated link runs, or of the link's own; `None`: this machine has no such link.
    pub(crate) fn behind_link(link: &mut Child, stderr: &Path) -> Option<Self> {
        let says = || fs::read_to_string(stderr).unwrap_or_default();
        let start = Instant::now();
        while !says().contains("live view at ") {
            if let Some(status) = link.try_wait().unwrap() {
                assert!(!status.success(), "{}", says());
                cellpace_testing::skip("no emulated link here");
                return None;
            }
            assert!(start.elapsed() < PATIENCE, "no link: {}", says());
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Self::of(stderr))
    }

    /// What the command printed for a browser.
    pub(crate) fn link(&self) -> String {
        format!("http://{}/#k={}", self.address, self.token)
    }

    pub(crate) fn ask(&self, path: &str) -> TcpStream {
        let mut stream = connect(self.address);
        let key = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token);
        write!(stream, "GET {path} HTTP/1.1\r\n{key}\r\n").unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let text = String::from_utf8(read_all(&self.ask(path))).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{path}: {head}");
        body.to_owned()
    }

    pub(crate) fn state(&self) -> Value {
        serde_json::from_str(&self.get("/api/state")).unwrap()
    }

    /// The value of each figure of `/metrics`, without labels; the last of several.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figure = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.split('{').next().unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        lines.map(figure).collect()
    }

    /// Page, data and figures are there, and their sums agree.
    pub(crate) fn serves_everything(&self, command: &str) {
        assert!(self.get("/").starts_with("<!doctype html>"));
        assert!(self.get("/report.js").contains("export {"), "what draws charts");
        let state = self.state();
        assert_eq!(
            (&state["schema"], &state["command"]),
            (&"cellpace.live/1".into(), &command.into())
        );
        let rows = state["rows"].as_array().unwrap().len();
        assert_eq!(state["summary"]["open"], rows);
        assert_eq!(self.metrics()["cellpace_build_info"], 1.0);
        let mut events = Events::of(self, "");
        assert_eq!(events.next().unwrap().1["command"], command);
        assert_eq!(events.next().unwrap().0, "flows");
    }
}

/// A stream of events.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn of(dashboard: &Dashboard, query: &str) -> Self {
        let mut reader = BufReader::new(dashboard.ask(&format!("/api/events?{query}")));
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
        }
        Self(reader)
    }

    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("event: ") {
                text.trim().clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(text).unwrap()));
            }
        }
    }
}
