//! The live view in a real browser: it fills, sorts, searches and opens connections, without an error on
//! the console. Uses `chromium` from the path or that of the variable `CHROMIUM`; without a browser it prints
//! that and passes. With `PAGES=folder` pictures of the pages are put there, for a look with one's own eyes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_cc::Profile;
use cellpace_live::{
    ConnectionFigures, ConnectionInside, LiveAbout, LiveConnection, LiveConnections, LiveServer,
    NewConnection, SharedFigures, WatchedConnection,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A browser that is driven through a pair of pipes (Chrome DevTools Protocol).
struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// What the console and the browser complained about.
    complaints: Vec<String>,
    /// The page that was opened last has loaded.
    is_loaded: bool,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start(width: u32, height: u32, scheme: &str) -> Option<Self> {
        let program = std::env::var_os("CHROMIUM").map_or_else(|| "chromium".into(), PathBuf::from);
        let version = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
        if version.is_err() {
            cellpace_testing::skip("no browser");
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // The browser takes commands from descriptor 3 and answers at 4.
        let script = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, messages) = channel();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut message = Vec::new();
            while answers.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                message.pop();
                let _ = sender.send(serde_json::from_slice(&message).unwrap());
                message.clear();
            }
        });
        let commands = child.stdin.take().unwrap();
        let mut browser = Self {
            child,
            commands,
            messages,
            next: 0,
            session: None,
            complaints: Vec::new(),
            is_loaded: false,
            _profile: profile,
        };
        browser.open_page(width, height, scheme);
        Some(browser)
    }

    fn open_page(&mut self, width: u32, height: u32, scheme: &str) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.prefer(scheme);
        let watch = "window.long = []; new PerformanceObserver((list) => list.getEntries()\
                     .forEach((entry) => window.long.push(entry.duration))).observe({ type: 'longtask' })";
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": watch }));
    }

    /// `light` or `dark`.
    fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key }));
        }
    }

    /// `mousePressed`, `mouseMoved` or `mouseReleased` at a share of the width of a chart.
    fn mouse(&mut self, kind: &str, chart: &str, share: f64) {
        let at = self.evaluate(&format!(
            "(({{ left, width, top, height }}) => [left + {share} * width, top + height / 2])\
             (document.querySelector('{chart} .u-over').getBoundingClientRect())"
        ));
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event =
            json!({ "type": kind, "x": at[0], "y": at[1], "button": button, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", event);
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({ "id": self.next, "method": method });
        command["params"] = params;
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        write!(self.commands, "{command}\0").unwrap();
        self.commands.flush().unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        self.is_loaded |= message["method"] == "Page.loadEventFired";
        let is_complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] != "log",
            // Answers that are no success are logged as errors, too; tests say where they expect one.
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_complaint {
            self.complaints.push(params.to_string());
        }
    }

    fn open(&mut self, link: &str) {
        self.is_loaded = false;
        self.call("Page.navigate", json!({ "url": link }));
        while !self.is_loaded {
            let message = self.messages.recv_timeout(PATIENCE).expect("the page loads");
            self.note(&message);
        }
    }

    fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a script's value is true.
    #[track_caller]
    fn becomes(&mut self, script: &str) {
        let start = Instant::now();
        while self.evaluate(script) != true {
            assert!(start.elapsed() < PATIENCE, "never {script}\n{:#?}", self.complaints);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Keeps a picture of the page where one is wanted.
    fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("PAGES") else { return };
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = data_encoding::BASE64.decode(picture["data"].as_str().unwrap().as_bytes());
        std::fs::write(Path::new(&folder).join(format!("live-{name}.png")), bytes.unwrap())
            .unwrap();
    }

    #[track_caller]
    fn ends_without_complaint(self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of which there is something to see inside.
struct Shown(SharedFigures);

impl LiveConnection for Shown {
    fn figures(&self) -> ConnectionFigures {
        self.0.figures()
    }

    fn watch(&self) -> Option<Box<dyn WatchedConnection>> {
        Some(Box::new(Watched(self.0.clone(), 0)))
    }
}

struct Watched(SharedFigures, u32);

impl WatchedConnection for Watched {
    fn look(&mut self) -> ConnectionInside {
        self.1 += 1;
        let cwnd = self.0.figures().cwnd.unwrap_or(0) as f64 / 1500.0;
        let reduced = json!({ "from": 30_000, "to": 15_000 });
        let events = (self.1 % 5 == 1).then_some((0.05, "reduced", reduced)).into_iter().collect();
        let curve = (1..60).map(|pkts| (f64::from(pkts), 20.0 + f64::from(pkts * pkts) / 40.0));
        let points = (1..60).step_by(3).map(|pkts| (f64::from(pkts), 22.0 + f64::from(pkts)));
        ConnectionInside {
            values: vec![("cwnd_pkts", cwnd), ("srtt_ms", 41.5), ("base_rtt_ms", 20.0)],
            events,
            profile: Some(Profile { points: points.collect(), curve: curve.collect() }),
        }
    }
}

/// A server with connections whose figures change all the time.
struct Scene {
    server: Option<LiveServer>,
    connections: LiveConnections,
    is_over: Arc<AtomicBool>,
    moving: Option<JoinHandle<()>>,
}

impl Scene {
    fn start(count: u64) -> Self {
        let connections = LiveConnections::new(LiveAbout {
            command: "run",
            subject: "verus:r=2".to_owned(),
            command_line: "cellpace run --dashboard --cc verus:r=2 -- nginx <b>&amp;</b>"
                .to_owned(),
        });
        let open = |number: u64| {
            let source = SharedFigures::default();
            let name = format!("192.0.2.1:443 <- 198.51.100.{}:{}", number % 256, 10_000 + number);
            let shown = Box::new(Shown(source.clone()));
            connections.opened(NewConnection {
                number,
                name,
                controller: "copa".into(),
                driver: "gate",
                source: shown,
            });
            source
        };
        let sources: Vec<_> = (1..=count).map(open).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = is_over.clone();
        let moving = thread::spawn(move || {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                sources.iter().zip(1..).for_each(|(source, number)| change(source, number, round));
                thread::sleep(Duration::from_millis(100));
            }
        });
        let address = "127.0.0.1:0".parse().unwrap();
        let server = LiveServer::start(address, connections.clone(), None).unwrap();
        Self { server: Some(server), connections, is_over, moving: Some(moving) }
    }

    fn link(&self) -> String {
        self.server.as_ref().unwrap().link()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.moving.take().unwrap().join();
    }
}

/// Each connection sends at a rate of its own, the one with the highest number fastest.
fn change(source: &SharedFigures, number: u64, round: u64) {
    let wave = (round as f64 / 20.0 + number as f64).sin().abs();
    source.update(|figures| {
        figures.sent_bytes += 100 * number + 500;
        figures.delivered_bytes += 100 * number;
        figures.cwnd = Some(15_000 + (wave * 90_000.0) as u64);
        figures.in_flight = Some(9_000 + (wave * 80_000.0) as u64);
        figures.queued = Some(number * 10);
        figures.tcp_cwnd = Some(120_000);
        figures.min_rtt = Some(Span::from_millis(20));
        figures.rtt = Some(Span::from_micros(20_000 + (wave * 40_000.0) as u64));
        figures.queue_delay = Some(Span::from_micros((wave * 40_000.0) as u64));
        figures.lost = number % 7;
        figures.phase = Some(["slow_start", "avoidance", "recovery"][number as usize % 3]);
    });
}

const ROWS: &str = "[...document.querySelectorAll('#scroll tbody tr:not(.space):not([hidden])')]";

#[test]
fn the_page_fills_sorts_searches_and_opens_a_connection() {
    for (name, width, height, scheme) in [
        ("wide-light", 1280, 1500, "light"),
        ("wide-dark", 1280, 1500, "dark"),
        ("narrow-light", 400, 1300, "light"),
        ("narrow-dark", 400, 1300, "dark"),
    ] {
        let Some(mut browser) = Browser::start(width, height, scheme) else { return };
        let scene = Scene::start(60);
        browser.open(&scene.link());
        browser.becomes("document.querySelector('#status')?.dataset.is === 'live'");
        browser.becomes(&format!("{ROWS}.length > 10"));
        browser.becomes("document.querySelectorAll('.chart canvas').length >= 3");
        browser.becomes("document.querySelector('#sums')?.textContent.includes('Mbit/s')");
        assert_eq!(browser.evaluate("document.title"), "cellpace run · verus:r=2");
        let first = format!("{ROWS}[0].cells[0].textContent");
        browser.becomes(&format!("{first}.endsWith(':10060')"));
        // By connection, both ways.
        let sort = "document.querySelector('[data-column=connection] button').click()";
        browser.evaluate(sort);
        browser.becomes(&format!("{first}.endsWith(':10060')"));
        browser.evaluate(sort);
        browser.becomes(&format!("{first}.endsWith(':10001')"));
        browser.becomes(
            "document.querySelector('[aria-sort=ascending]')?.dataset.column === 'connection'",
        );
        search(&mut browser, "100.7:");
        browser.becomes(&format!("{ROWS}.length === 1 && {first}.endsWith(':10007')"));
        browser.becomes("document.querySelector('#count').textContent === '1 of 60'");
        browser.evaluate(&format!("{ROWS}[0].click()"));
        browser.becomes("!document.querySelector('#detail').hidden");
        browser.becomes("document.querySelector('#values').textContent.includes('cwnd pkts')");
        browser.becomes("document.querySelectorAll('#events li').length > 2");
        browser.becomes("document.querySelectorAll('#detail canvas').length === 3");
        browser.becomes(
            "document.querySelector('#detail-title').textContent.includes('198.51.100.7')",
        );
        search(&mut browser, "");
        browser.becomes(&format!("{ROWS}.length > 10"));
        let overflow =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert!(browser.evaluate(overflow).as_i64().unwrap() <= 0, "{name} scrolls sideways");
        browser.picture(name);
        browser.evaluate("document.querySelector('#close').click()");
        browser.becomes("document.querySelector('#detail').hidden");
        browser.ends_without_complaint();
    }
}

#[test]
fn rows_stay_under_the_pointer_and_what_has_ended_is_listed() {
    let Some(mut browser) = Browser::start(1280, 1500, "light") else { return };
    let scene = Scene::start(40);
    scene.connections.offer(12e6);
    browser.open(&scene.link());
    let first = format!("{ROWS}[0].cells[0].textContent");
    browser.becomes(&format!("{ROWS}.length > 10 && {first}.endsWith(':10040')"));
    browser.evaluate(&format!(
        "{ROWS}[0].dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }}))"
    ));
    scene.connections.closed(40, ConnectionFigures::default(), "finished");
    browser.becomes("document.querySelector('#ended tbody').rows.length === 1");
    browser.becomes("document.querySelector('#ended tbody').textContent.includes('finished')");
    browser.becomes(&format!("{ROWS}[0].classList.contains('ended')"));
    browser.becomes(&format!("{first}.endsWith(':10040')"));
    browser.evaluate(
        "document.querySelector('#scroll').dispatchEvent(new PointerEvent('pointerleave'))",
    );
    browser.becomes(&format!("{first}.endsWith(':10039')"));
    let capacity = "document.querySelector('#rate').plot?.chart.lines.find(({ area }) => area)";
    browser.becomes(&format!("{capacity}?.y.at(-1) === 12"));
    browser.becomes(&format!("{}.includes('capacity of the link')", legend("#rate")));
    // Another link pasted into the same tab is opened.
    let other = Scene::start(2);
    let (_, key) =
        other.link().split_once('#').map(|(at, key)| (at.to_owned(), key.to_owned())).unwrap();
    browser.evaluate(&format!("window.isOld = true; location.hash = '{key}'; true"));
    browser.complaints.clear();
    browser.becomes(
        "window.isOld === undefined && document.querySelector('#status')?.dataset.is === 'lost'",
    );
}

#[test]
fn controllers_are_summed_where_there_are_several() {
    let Some(mut browser) = Browser::start(1280, 1500, "light") else { return };
    let scene = Scene::start(6);
    let figures = SharedFigures::default();
    figures.update(|figures| figures.delivered_bytes = 5_000_000);
    scene.connections.opened(NewConnection {
        number: 99,
        name: "a".to_owned(),
        controller: "verus".into(),
        driver: "gate",
        source: Box::new(figures),
    });
    browser.open(&scene.link());
    browser.becomes("!document.querySelector('#arms').hidden");
    let cells = "[...document.querySelectorAll('#arms tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))";
    browser.becomes(&format!("{cells}[0][0] === 'copa' && {cells}[0][1] === '6'"));
    browser.becomes(&format!("{cells}[1][0] === 'verus' && {cells}[1][4] === '5.00 MB'"));
    browser.becomes("document.querySelector('[data-column=controller]').hidden === false");
    // What a report has for them: verus is the first, copa the second.
    let looks: Value = serde_json::from_str(&cellpace_report::looks_json(2)).unwrap();
    for (name, place) in [("verus", 0), ("copa", 1)] {
        let outline = &looks[place]["outline"];
        let colour = format!(
            "getComputedStyle(document.documentElement).getPropertyValue('--c{}')",
            looks[place]["colour"]
        );
        for parts in ["#arms tbody th", "#rate + .legend button"] {
            let part = format!(
                "[...document.querySelectorAll('{parts}')].find((part) => part.textContent === '{name}')"
            );
            browser.becomes(&format!("{part} !== undefined"));
            let mark = browser.evaluate(&format!(
                "(({{ attributes: {{ d, fill }} }}) => [d.value, fill.value])({part}.querySelector('path'))"
            ));
            assert_eq!(mark, json!([outline, browser.evaluate(&colour)]), "{name} in {parts}");
        }
        browser.becomes(&format!(
            "document.querySelector('#rate').plot.chart.lines.find((line) => line.name === '{name}').look === {place}"
        ));
    }
    let arms =
        "document.querySelector('#rate').plot.chart.lines.slice(-2).map(({ y }) => y.at(-1))";
    browser.becomes(&format!("{arms}[0] > 0 && {arms}[1] === 0"));
    browser.ends_without_complaint();
}

/// Names of the lines that a chart's legend has.
fn legend(chart: &str) -> String {
    format!(
        "[...document.querySelectorAll('{chart} + .legend button')].map(({{ title }}) => title)"
    )
}

/// Waits until a chart over time has three more values.
fn three_more(browser: &mut Browser, chart: &str) {
    let last = format!("document.querySelector('{chart}').plot.data[0].at(-1)");
    let now = browser.evaluate(&last);
    browser.becomes(&format!("{last} > {now} + 1.2"));
}

#[test]
fn charts_are_read_by_keys_and_pointer_and_zoomed_while_values_come() {
    for (scheme, other) in [("light", "dark"), ("dark", "light")] {
        let Some(mut browser) = Browser::start(1280, 1500, scheme) else { return };
        let scene = Scene::start(6);
        browser.open(&scene.link());
        let (plot, tip) =
            ("document.querySelector('#rate').plot", "document.querySelector('#rate .tip')");
        browser.becomes(&format!("{plot}?.data[0].length > 4"));
        let described = browser.evaluate(
            "[...document.querySelectorAll('.charts .chart')].slice(0, 3).map((chart) => \
                       [chart.tabIndex, chart.role, chart.ariaLabel.split(',')[0]])",
        );
        let titles = ["Throughput", "Delay", "Where bytes are"];
        assert_eq!(described, json!(titles.map(|title| json!([0, "application", title]))));

        browser.evaluate("document.querySelector('#rate').focus()");
        browser.press("End");
        browser.press("Home");
        browser.press("ArrowRight");
        let said = browser.evaluate("document.querySelector('#spoken').textContent");
        let said = said.as_str().unwrap();
        assert!(said.contains("Mbit/s") && said.contains("all connections"), "{said}");
        let is_shown = format!(
            "{tip}.style.display === 'block' && {tip}.textContent.includes('all connections')"
        );
        assert_eq!(browser.evaluate(&is_shown), true);
        three_more(&mut browser, "#rate");
        assert_eq!(browser.evaluate(&is_shown), true, "what is read stays in sight");

        // All charts together, and what comes is drawn outside.
        browser.press("+");
        let spans = "['#rate', '#delay', '#bytes'].map((chart) => document.querySelector(chart).plot.scales.x).map(({ min, max }) => `${min} ${max}`)";
        browser.becomes(&format!(
            "new Set({spans}).size === 1 && {plot}.scales.x.max - {plot}.scales.x.min < 20"
        ));
        let zoomed = browser.evaluate(spans);
        three_more(&mut browser, "#rate");
        assert_eq!(browser.evaluate(spans), zoomed, "values that come leave the zoom");
        assert_eq!(browser.evaluate(&is_shown), true);
        browser.press("Escape");
        browser.becomes(&format!(
            "new Set({spans}).size === 1 && {plot}.scales.x.max - {plot}.scales.x.min >= 30"
        ));

        // The pointer stays, and what it points at moves.
        browser.mouse("mouseMoved", "#delay", 0.05);
        let pointed = "document.querySelector('#delay .tip')";
        browser.becomes(&format!("{pointed}.style.display === 'block'"));
        three_more(&mut browser, "#delay");
        assert_eq!(browser.evaluate(&format!("{pointed}.style.display")), "block");
        browser.mouse("mousePressed", "#delay", 0.02);
        browser.mouse("mouseMoved", "#delay", 0.1);
        three_more(&mut browser, "#delay");
        browser.mouse("mouseReleased", "#delay", 0.1);
        browser.becomes(&format!(
            "new Set({spans}).size === 1 && {plot}.scales.x.max - {plot}.scales.x.min < 10"
        ));

        // The window has the colour of its controller, in the other scheme, too.
        browser.evaluate(&format!("{ROWS}[0].click()"));
        let window = "document.querySelector('#detail-window').plot";
        browser.becomes(&format!("{window}?.chart.lines[0].events.length > 0"));
        let stroke = format!("{window}?.series[1].stroke({window}, 1)");
        let own = "getComputedStyle(document.documentElement).getPropertyValue('--c1')";
        assert_eq!(browser.evaluate(&stroke), browser.evaluate(own));
        let before = browser.evaluate(own);
        browser.prefer(other);
        browser.becomes(&format!("{stroke} === {own}"));
        assert_ne!(browser.evaluate(own), before);
        browser.evaluate("document.querySelector('#detail-window + .legend button').click()");
        browser.becomes(&format!("{window}?.chart.lines[0].hidden === true"));
        browser.ends_without_complaint();
    }
}

fn search(browser: &mut Browser, text: &str) {
    let text = json!(text);
    browser.evaluate(&format!(
        "{{ const search = document.querySelector('#search'); search.value = {text}; \
         search.dispatchEvent(new Event('input')); true }}"
    ));
}

#[test]
fn the_page_says_when_the_command_has_ended_and_when_its_link_is_wrong() {
    let Some(mut browser) = Browser::start(1280, 900, "light") else { return };
    let mut scene = Scene::start(3);
    browser.open(&scene.link());
    browser.becomes(&format!("{ROWS}.length === 3"));
    let address = scene.server.as_ref().unwrap().address();
    scene.server.take().unwrap().finish();
    browser.becomes("document.querySelector('#status').dataset.is === 'ended'");
    assert_eq!(browser.evaluate(&format!("{ROWS}.length")), 3, "what it showed stays");
    let said = "document.querySelector('#status').textContent";
    assert!(browser.evaluate(said).as_str().unwrap().starts_with("ended after "));
    let next = LiveServer::start(address, LiveConnections::new(LiveAbout::default()), None);
    browser.becomes(&format!(
        "{said}.startsWith('ended after ') && {said}.includes('; another command runs here now')"
    ));
    assert_eq!(browser.evaluate(&format!("{ROWS}.length")), 3);
    next.unwrap().finish();
    let scene = Scene::start(3);
    let (address, _) =
        scene.link().split_once("#k=").map(|(at, key)| (at.to_owned(), key.len())).unwrap();
    browser.open(&address);
    browser.becomes("document.querySelector('#status')?.textContent.includes('as it was printed')");
    browser.complaints.clear();
    browser.open(&format!("{address}?other#k=00"));
    browser.becomes("document.querySelector('#status')?.textContent.includes('not valid')");
    assert!(!scene.connections.has_viewers());
}

#[test]
fn ten_thousand_connections_do_not_make_the_page_stutter() {
    let Some(mut browser) = Browser::start(1280, 1000, "light") else { return };
    let scene = Scene::start(10_000);
    browser.open(&scene.link());
    browser.becomes(&format!("{ROWS}.length > 10"));
    browser.becomes("document.querySelector('#count').textContent === '10000'");
    assert!(
        browser.evaluate(&format!("{ROWS}.length")).as_u64().unwrap() < 60,
        "only what is in sight"
    );
    // To the last row, and back by a sort.
    browser.evaluate("document.querySelector('#scroll').scrollTop = 1e9");
    browser.becomes(&format!("{ROWS}.at(-1).cells[0].textContent.endsWith(':10001')"));
    browser.evaluate("document.querySelector('[data-column=cwnd] button').click()");
    browser.becomes(&format!(
        "{ROWS}.length > 10 && document.querySelector('#scroll').scrollTop === 0"
    ));
    // Other programs may take the machine for a while, but not three times.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let script =
            "window.long = []; new Promise((done) => setTimeout(() => done(window.long), 5000))";
        let long: Vec<f64> = serde_json::from_value(browser.evaluate(script)).unwrap();
        let longest = long.iter().copied().fold(0.0, f64::max);
        println!("tasks above 50 ms within 5 s: {}, the longest {longest} ms", long.len());
        seen.push(longest);
        if longest < 200.0 {
            return browser.ends_without_complaint();
        }
    }
    panic!("the page stutters: tasks of {seen:?} ms");
}
