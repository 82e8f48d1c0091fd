//! Figures for Prometheus: what dashboards and alerts name is what programs print, and a real Prometheus reads it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellpace_live::{HISTOGRAMS, METRICS};
use serde_json::Value;

use crate::program::Folder;
use crate::program::dashboard::Dashboard;
use crate::program::guinea::{PATIENCE, connect, read_all};

const SIZE: usize = 4_000_000;

/// Both arms are the same.
const ARMS: &str = "[experiment]\nname = \"same\"\nsecret = \"0123456789abcdef\"\n\
                    [[arm]]\nname = \"a\"\ncc = \"cubic\"\n[[arm]]\nname = \"b\"\ncc = \"cubic\"\n";

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Ends when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A proxy in front of a server, with its figures.
struct MeasuredProxy {
    _process: Ended,
    at: SocketAddr,
    dashboard: Dashboard,
}

impl MeasuredProxy {
    fn start(folder: &Folder, name: &str, to: SocketAddr) -> Self {
        folder.write("arms.toml", ARMS);
        let (to, log) = (to.to_string(), format!("{name}.jsonl"));
        let mut command = folder.command(["proxy", "--listen", "0", "--to", &to, "--dashboard"]);
        command.args(["--experiment", "arms.toml", "--experiment-log", &log]);
        let said = folder.path(name);
        let process = Ended(command.stderr(fs::File::create(&said).unwrap()).spawn().unwrap());
        let dashboard = Dashboard::of(&said);
        let at = soon("a port", || {
            let text = fs::read_to_string(&said).unwrap();
            text.lines().find_map(|line| line.split_once("waiting at ")?.1.parse().ok())
        });
        Self { _process: process, at, dashboard }
    }
}

/// What `look` finds, as soon as it does.
fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends some megabytes to each client.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(&vec![7; SIZE]);
        }
    });
    address
}

/// An address where nothing listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Connects to a proxy that cannot reach its server, which resets clients.
fn refused(by: &MeasuredProxy) {
    let _ = TcpStream::connect(by.at).and_then(|mut client| client.read_to_end(&mut Vec::new()));
}

/// Names in expressions of PromQL that are ours.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("cellpace_")).map(str::to_owned).collect()
}

fn shown_by_grafana() -> BTreeSet<String> {
    let text = fs::read_to_string(docs("grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.flat_map(|target| names(target["expr"].as_str().unwrap())).collect()
}

fn named_by_alerts() -> BTreeSet<String> {
    let text = fs::read_to_string(docs("alerts.yml")).unwrap();
    text.lines().filter(|line| line.trim_start().starts_with("expr:")).flat_map(names).collect()
}

#[test]
fn dashboard_and_alerts_name_figures_that_are_printed_and_the_dashboard_all_of_connections() {
    let folder = Folder::new();
    let serving = MeasuredProxy::start(&folder, "serving", server());
    assert_eq!(read_all(&connect(serving.at)).len(), SIZE);
    let refusing = MeasuredProxy::start(&folder, "refusing", nowhere());
    refused(&refusing);
    // Of another one only the beginning is read.
    let open = connect(serving.at);
    (&open).read_exact(&mut [0; 1000]).unwrap();
    let later = ["cellpace_goodput_bytes_per_second_count", "cellpace_phase_connections"];
    soon("an end and a phase", || {
        let metrics = serving.dashboard.metrics();
        later.iter().all(|name| metrics.contains_key(*name)).then_some(())
    });
    let mut printed = BTreeSet::new();
    for proxy in [&serving, &refusing] {
        printed.extend(proxy.dashboard.metrics().into_keys());
    }
    let (shown, alerted) = (shown_by_grafana(), named_by_alerts());
    assert!(alerted.len() >= 8, "{alerted:?}");
    for name in shown.union(&alerted) {
        assert!(printed.contains(name), "{name} is not among {printed:?}");
    }
    let buckets = HISTOGRAMS.iter().map(|of| format!("{}_bucket", of.name));
    for name in METRICS.iter().map(|of| of.name.to_owned()).chain(buckets) {
        assert!(shown.contains(&name), "no panel shows {name}");
    }
}

/// Runs `promtool` of the Debian package; `false` where there is none.
fn promtool(args: &[&str]) -> bool {
    let mut command = Command::new("promtool");
    let output = match command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cellpace_testing::skip("no promtool");
            return false;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{args:?}: {output:?}");
    true
}

#[test]
fn each_alert_fires_on_figures_that_deserve_it_and_only_then() {
    if promtool(&["check", "rules", "../../docs/alerts.yml"]) {
        promtool(&["test", "rules", "tests/it/metrics/alerts.yml"]);
    }
}

/// A Prometheus that scrapes two proxies every second.
struct Prometheus {
    _process: Ended,
    at: SocketAddr,
}

impl Prometheus {
    /// `None` where there is none. Alerts do not wait for minutes.
    fn start(folder: &Folder, targets: [SocketAddr; 2]) -> Option<Self> {
        let rules = fs::read_to_string(docs("alerts.yml")).unwrap();
        let rules = rules.replace("for: 15m", "for: 0s").replace("for: 10m", "for: 0s");
        folder.write("alerts.yml", rules.replace("for: 5m", "for: 0s"));
        let [one, two] = targets;
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [alerts.yml]\n\
             scrape_configs:\n  - job_name: cellpace\n    static_configs: [{{ targets: ['{one}', '{two}'] }}]\n"
        );
        folder.write("prometheus.yml", config);
        let at = nowhere();
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address={at}")).current_dir(folder.path(""));
        command
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path("prometheus.log")).unwrap());
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                cellpace_testing::skip("no Prometheus");
                None
            }
            child => Some(Self { _process: Ended(child.unwrap()), at }),
        }
    }

    /// The data of an answer of its interface; `None` until it answers.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.at).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.at).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let answer: Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
        (answer["status"] == "success").then(|| answer["data"].clone())
    }

    /// Waits until a selector finds series; returns the first one's labels.
    fn series(&self, name: &str, selector: &str) -> Value {
        soon(name, || {
            let selector = selector.replace('"', "%22");
            let found = self.ask(&format!("/api/v1/query?query={name}{{{selector}}}"))?;
            found["result"].get(0).map(|series| series["metric"].clone())
        })
    }
}

#[test]
fn a_prometheus_reads_a_proxy_and_an_alert_fires() {
    let folder = Folder::new();
    let serving = MeasuredProxy::start(&folder, "serving", server());
    let refusing = MeasuredProxy::start(&folder, "refusing", nowhere());
    let targets = [serving.dashboard.address, refusing.dashboard.address];
    let Some(prometheus) = Prometheus::start(&folder, targets) else { return };
    assert_eq!(read_all(&connect(serving.at)).len(), SIZE);
    let labels = prometheus.series("cellpace_goodput_bytes_per_second_bucket", "le=\"%2BInf\"");
    assert_eq!((&labels["command"], &labels["job"]), (&"proxy".into(), &"cellpace".into()));
    assert_eq!((&labels["controller"], &labels["driver"]), (&"cubic".into(), &"gate".into()));
    for name in ["cellpace_rtt_seconds_sum", "cellpace_connections_total", "cellpace_build_info"] {
        prometheus.series(name, "");
    }
    // An increase shows from the second reading on.
    refused(&refusing);
    prometheus.series("cellpace_proxy_refused_total", "reason=\"unreachable\"");
    let alert = soon("an alert", || {
        (0..100).for_each(|_| refused(&refusing));
        let alerts = prometheus.ask("/api/v1/alerts")?;
        let firing = |alert: &&Value| alert["state"] == "firing";
        alerts["alerts"].as_array()?.iter().find(firing).cloned()
    });
    assert_eq!(alert["labels"]["alertname"], "CellpaceRefusesClients", "{alert}");
    assert_eq!(alert["labels"]["instance"], refusing.dashboard.address.to_string());
}
