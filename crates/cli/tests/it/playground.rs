//! The playground: its module gives the same figures as the program, whatever it is asked, and its page
//! works in a browser. The module is built here, which takes rustup's target for WebAssembly; it runs in
//! Node 20 or newer, and the page in `chromium` or the browser that the variable `CHROMIUM` names. What
//! is missing is skipped with a line. With `PAGES=folder` page and screenshots stay there.

#[path = "../../../web/examples/playground/page.rs"]
mod page;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use cellpace_base::Random;
use cellpace_cc::registry;
use cellpace_testing::skip;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The module, built once for all tests; `None`: this machine cannot.
fn module() -> Option<&'static Path> {
    static MODULE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = MODULE.get_or_init(|| {
        let installed = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        let sysroot = String::from_utf8(installed.stdout).ok()?;
        let target = Path::new(sysroot.trim()).join("lib/rustlib").join(page::TARGET);
        target.exists().then(|| page::build_module().unwrap_or_else(|error| panic!("{error}")))
    });
    if built.is_none() {
        skip(format!("no Rust target {} (rustup target add)", page::TARGET));
    }
    built.as_deref()
}

/// Whether Node is new enough.
fn has_node() -> bool {
    let version = Command::new("node").arg("--version").output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = text.ok().and_then(|text| {
        text.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok())
    });
    let is_there = major.is_some_and(|major: u32| major >= 20);
    if !is_there {
        skip("no Node 20");
    }
    is_there
}

/// The module in Node, which answers line by line.
struct Node {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Node {
    /// With what the module describes; `None`: something is missing.
    fn start() -> Option<(Self, Value)> {
        let module = module()?;
        has_node().then_some(())?;
        let mut child = Command::new("node")
            .arg(root().join("crates/cli/tests/it/playground/module.mjs"))
            .arg(module)
            .arg(root().join("crates/web/page"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut node = Self { child, answers };
        let first = node.line();
        assert_eq!(first["imports"], json!([]), "the module asks its host for nothing");
        let choices = first["choices"].clone();
        Some((node, choices))
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{question}").unwrap();
        let answer = self.line();
        assert!(answer["trap"].is_null(), "{answer}");
        assert_eq!(answer["link"], answer["again"], "a link is what it came from");
        answer
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The runs that the program reports for a command of the page, controller by controller.
fn native(command: &str, folder: &Path) -> Vec<Value> {
    let program = Path::new(env!("CARGO_BIN_EXE_cellpace"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} --json -")])
        .env("PATH", path)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["runs"].as_array().unwrap().clone()
}

fn names(choices: &Value, of: &str) -> Vec<String> {
    let all = choices[of].as_array().unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// The same with every number as JavaScript has it: 1.0 and 1 are one.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(values) => values.iter().map(plain).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        other => other.clone(),
    }
}

/// What the page shows for a command, one object of figures for each controller, is what the program gives.
fn is_the_same(command: &str, shown: &[Value], folder: &Path) {
    let native = native(command, folder);
    assert_eq!(native.len(), shown.len(), "{command}");
    for (run, shown) in native.iter().zip(shown) {
        let Some(figures) = shown["figures"].as_object() else { panic!("{command}: {shown}") };
        assert!(figures.len() >= 10, "{figures:?}");
        for (name, value) in figures {
            assert_eq!(plain(&run[name]), plain(value), "{command}: {}: {name}", run["cc"]);
        }
    }
}

/// The module's answers to a question are what the program gives for the page's command.
fn answers_the_same(node: &mut Node, question: &Value, folder: &Path) {
    let answer = node.ask(question);
    is_the_same(text(&answer["command"]), answer["answers"].as_array().unwrap(), folder);
}

/// The controllers of the registry in a module, built once for all tests, in a folder.
fn builtin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--release", "--offline", "--target", page::TARGET]);
        cargo.args(["-p", "cellpace-guest", "--example", "builtin", "--target-dir"]).arg(&target);
        assert!(cargo.current_dir(root()).status().unwrap().success());
        target.join(page::TARGET).join("release/examples/builtin.wasm")
    })
}

/// Divides by zero at its first ack if it has a start at all.
fn failing(start: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module (memory (export "memory") 1)
           (func (export "cellpace_abi") (result i32) i32.const 1)
           (func (export "{start}") (param i32 i32)
               (i64.store (local.get 1) (i64.const 30000)))
           (func (export "cellpace_on_ack") (param i32 i32)
               (drop (i32.div_u (i32.const 1) (i32.const 0)))))"#
    ))
    .unwrap()
}

/// A controller and the same one in a module; their names are in the figures, too.
fn decide_the_same(native: &Value, module: &Value) {
    for name in ["throughput_mbps", "queue_delay_ms", "rtt_ms_seen", "packets", "lost"] {
        assert_eq!(native["figures"][name], module["figures"][name], "{name}");
    }
}

const NO_START: &str = "`plugin`: bad.wasm: it does not export `cellpace_start`";

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn all_controllers_have_the_same_figures_as_in_the_program() {
    let Some((mut node, choices)) = Node::start() else { return };
    let controllers = names(&choices, "controllers");
    assert!(controllers.len() >= 11, "{controllers:?}");
    for trace in ["lte-driving", "hspa-city", "5g-midband"] {
        // Steps that end nowhere in particular: they make no difference.
        let state = json!({ "trace": trace, "cc": controllers, "duration": "20s" });
        answers_the_same(&mut node, &json!({ "state": state, "step": 777 }), Path::new("."));
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn conditions_parameters_and_files_have_the_same_figures_as_in_the_program() {
    let Some((mut node, choices)) = Node::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for queue in names(&choices, "queues") {
        let state = json!({
            "trace": "step:9mbit/4s,2.5mbit/3s", "queue": queue, "rtt": "step:20ms/5s,90ms/5s",
            "loss": "0.5%", "handover": ["6s/200ms", "9s/50ms/70ms/lost"], "flows": "2",
            "seed": "7", "duration": "12s", "cc": ["verus:original,r=3", "copa:code", "bbr"],
        });
        answers_the_same(&mut node, &json!({ "state": state }), folder.path());
    }
    for (name, trace) in [("./a b's;$(x).down", "1\n2\n2\n5\n9\n"), ("./lte-driving", "3\n4\n")] {
        std::fs::write(folder.path().join(name), trace).unwrap();
        let state = json!({ "trace": name, "cc": ["sprout", "cubic"], "duration": "10s" });
        let file = json!({ "name": name, "text": trace });
        answers_the_same(&mut node, &json!({ "state": state, "file": file }), folder.path());
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_module_has_the_same_figures_as_in_the_program() {
    let Some((mut node, _)) = Node::start() else { return };
    let cubic = registry().iter().position(|info| info.name == "cubic").unwrap();
    let module = format!("plugin:builtin.wasm,which={cubic}");
    let state = json!({ "trace": "lte-driving", "cc": ["cubic", module], "duration": "30s" });
    let begun = Instant::now();
    let answer = node.ask(&json!({ "state": state, "module": builtin() }));
    println!("30 s of cubic, and of cubic in a module: {:?}", begun.elapsed());
    let controller = &answer["controller"];
    assert_eq!(controller["name"], "plugin:builtin.wasm", "{controller}");
    assert_eq!(controller["params"][0]["key"], "which", "{controller}");
    let [native, module] = answer["answers"].as_array().unwrap().as_slice() else {
        panic!("{answer}");
    };
    decide_the_same(native, module);
    let command = text(&answer["command"]);
    let folder = builtin().parent().unwrap();
    match cfg!(feature = "plugin") {
        true => is_the_same(command, answer["answers"].as_array().unwrap(), folder),
        false => {
            let (alone, _) = command.split_once(" --cc plugin:").unwrap();
            is_the_same(&format!("{alone} --duration 30s"), std::slice::from_ref(native), folder);
        }
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_module_that_fails_is_named_as_in_the_program() {
    let Some((mut node, _)) = Node::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.wasm");
    let state = json!({ "trace": "constant:12mbit", "cc": ["plugin:bad.wasm"], "duration": "5s" });
    let mut ask = |module: &[u8]| {
        std::fs::write(&file, module).unwrap();
        node.ask(&json!({ "state": state, "module": file }))
    };
    let bad = ask(&failing("cellpace_strat"));
    assert_eq!(bad["controller"]["error"], NO_START);
    assert_eq!(bad["answers"][0]["error"], "`plugin`: there is no file `bad.wasm`");
    assert_eq!(
        ask(b"1\n")["controller"]["error"],
        "`plugin`: bad.wasm: this is no WebAssembly module"
    );
    let fails = ask(&failing("cellpace_start"));
    let error = "flow 1, 0.041 s after the start: bad.wasm: cellpace_on_ack: wasm trap: integer divide by zero";
    assert_eq!(fails["answers"][0]["error"], error, "{fails}");
}

/// Picks from what may be asked, right and wrong; the same on every machine.
struct Picks(Random);

impl Picks {
    fn from<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    /// One that may be asked; every tenth time one that perhaps may not.
    fn mostly<'a>(&mut self, right: &[&'a str], odd: &[&'a str]) -> &'a str {
        if self.0.below(10) == 0 { self.from(odd) } else { self.from(right) }
    }

    fn one<'a>(&mut self, of: &'a Value) -> &'a Value {
        let of = of.as_array().unwrap();
        &of[self.0.below(of.len() as u64) as usize]
    }

    /// A name with up to two of its parameters, of which some values make no sense.
    fn spec(&mut self, kinds: &Value) -> String {
        let kind = self.one(kinds);
        let params = kind["params"].as_array().unwrap();
        let mut spec = text(&kind["name"]).to_owned();
        for index in 0..self.0.below(3).min(params.len() as u64) {
            let param = self.one(&kind["params"]);
            let ends = text(&param["allowed"]).split([' ', ',']).next().unwrap();
            let (low, high) = ends.split_once("..").unwrap_or((ends, ends));
            let default = text(&param["default"]);
            let value =
                self.mostly(&[default, low, high], &["0", "-1", "1e308", "nan", "3pkts", "x", ""]);
            spec +=
                &format!("{}{}={value}", if index == 0 { ":" } else { "," }, text(&param["key"]));
        }
        spec + self.mostly(&[""], &[":", ",", ":9pkts", "=", " "])
    }

    fn state(&mut self, choices: &Value) -> Value {
        let profile = text(&self.one(&choices["traces"])["name"]);
        let traces = [
            profile,
            profile,
            "constant:0.3mbit",
            "constant:40mbit",
            "step:1mbit/1ms,0bit/1ms",
            "random:1mbit..9mbit/1s",
            "onoff:5mbit,on=1s,off=1s",
        ];
        json!({
            "cc": [self.spec(&choices["controllers"])],
            "queue": self.spec(&choices["queues"]),
            "trace": self.mostly(&traces, &["constant:0bit", "radio:x", "./none", "", "\u{0}:<b>", "-", "cellreplay:"]),
            "rtt": self.mostly(&["40ms", "0s", "1us", "step:1ms/1s,1s/1s"], &["3600s", "40", "file:./none", "-1ms"]),
            "loss": self.mostly(&["0%", "3%", "99.9%", "ge:0.1%,30%", "random:0%..9%/1s"], &["100%", "0.05", "ge:"]),
            "handover": match self.0.below(9) {
                0 => json!(["1s/0s", "1s/100ms/1ms/lost"]),
                1 => json!(["1s/9s"]),
                2 => json!(["2s", "1s"]),
                _ => json!([]),
            },
            "flows": self.mostly(&["1", "2", "16"], &["0", "17", "x"]),
            "duration": self.mostly(&["3s"], &["1ms", "600s", "601s", "0s", "1e300s", "soon"]),
            "seed": self.mostly(&["1", "0", "18446744073709551615"], &["18446744073709551616", "-1", "1.5"]),
        })
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_thousand_random_questions_have_a_result_or_an_error() {
    let Some((mut node, choices)) = Node::start() else { return };
    let mut picks = Picks(Random::seeded(11, 0));
    let (mut results, mut errors) = (0, 0);
    for _ in 0..1000 {
        let state = picks.state(&choices);
        // Those that take long are left in the middle, as by a person who goes on.
        let answer = node.ask(&json!({ "state": state, "step": 250, "most": 13 }));
        let answer = &answer["answers"][0];
        let error = answer["error"].as_str();
        assert!(error.is_none_or(|error| !error.is_empty()), "{state}: {answer}");
        errors += usize::from(error.is_some());
        results += usize::from(answer["figures"].is_object() || answer["share"].is_number());
    }
    assert_eq!(results + errors, 1000);
    assert!(results > 100 && errors > 100, "{results} results, {errors} errors");
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn memory_does_not_grow_from_run_to_run() {
    let Some((mut node, choices)) = Node::start() else { return };
    let controllers = names(&choices, "controllers");
    let round = |node: &mut Node, seed: usize| {
        let file = json!({ "name": "./f", "text": "1\n3\n".repeat(10_000 + seed) });
        let state = json!({ "cc": controllers, "duration": "6s", "seed": seed.to_string() });
        node.ask(&json!({ "state": state, "file": file }))["bytes"].as_u64().unwrap()
    };
    let early = (0..5).map(|seed| round(&mut node, seed)).max().unwrap();
    let late = (5..25).map(|seed| round(&mut node, seed)).max().unwrap();
    assert!(late <= early + (4 << 20), "{early} bytes became {late}");
    assert!(late < 100 << 20, "{late} bytes");
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn the_page_stays_small() {
    let Some(module) = module() else { return };
    let module = std::fs::read(module).unwrap();
    let page = page::page(&module);
    println!("module: {} bytes, page: {} bytes", module.len(), page.len());
    assert!(page.len() < 3_000_000, "{}", page.len());
    assert!(page.contains("default-src 'none'"));
}

/// What a person does with the page, in a browser.
#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn the_page_is_used_in_a_browser() {
    let Some(module) = module() else { return };
    if !has_node() {
        return;
    }
    let chromium = std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    if Command::new(&chromium).arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("no browser");
    }
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("PAGES").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(scratch.path());
    let file = folder.join("playground.html");
    std::fs::copy(builtin(), folder.join("builtin.wasm")).unwrap();
    std::fs::write(folder.join("bad.wasm"), failing("cellpace_strat")).unwrap();
    std::fs::write(&file, page::page(&std::fs::read(module).unwrap())).unwrap();
    let mut doing = Command::new("node");
    doing.arg(root().join("crates/cli/tests/it/playground/doing.mjs"));
    doing.arg(&chromium).arg(folder).arg(&file);
    match std::env::var_os("AXE_CORE") {
        Some(axe) => _ = doing.arg(axe),
        None => skip("no axe-core: accessibility is not checked"),
    }
    let output = doing.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    nothing_is_amiss(&seen);
    what_is_shown_is_what_the_program_gives(&seen, scratch.path());
    a_dropped_module_is_a_controller(&seen["modules"]);
    hostile_texts_are_texts(&seen);
    controls_change_the_command(&seen);
    leads_back(&seen["back"]);
    assert_eq!(seen["cancel"]["running"], false);
    assert!(text(&seen["cancel"]["status"]).starts_with("Cancelled"));
    assert_eq!(seen["cancel"]["after"], 1, "the page goes on after a run was cancelled");
    assert_eq!((&seen["paper"]["cut"], &seen["paper"]["controls"]), (&json!([]), &"none".into()));
    println!(
        "a minute, four controllers: {}; not at its messages for {} ms",
        seen["minute"], seen["cancel"]["longest"]
    );
}

fn nothing_is_amiss(seen: &Value) {
    for kind in ["console", "requests", "errors", "violations"] {
        assert_eq!(seen[kind], json!([]), "{kind}");
    }
    let looks = seen["looks"].as_array().unwrap();
    assert_eq!(looks.len(), 4);
    for look in looks {
        for chart in ["throughput", "delay", "scatter", "cdf", "inside", "rows"] {
            assert_eq!(look["drawn"][chart], 4, "{look}");
        }
        assert!(look["overflow"].as_i64().unwrap() <= 0, "{look}");
    }
}

fn what_is_shown_is_what_the_program_gives(seen: &Value, folder: &Path) {
    let shown = |part: &Value| {
        is_the_same(text(&part["command"]), part["figures"].as_array().unwrap(), folder);
    };
    shown(&seen["drag"]);
    assert!(seen["drag"]["during"].as_u64().unwrap() >= 2, "pictures follow: {}", seen["drag"]);
    assert_ne!(seen["drag"]["keyboard"][0], seen["drag"]["keyboard"][1]);
    shown(&seen["draw"]);
    assert!(text(&seen["draw"]["mouse"]).contains("--trace step:12mbit/"), "{}", seen["draw"]);
    assert_ne!(seen["draw"]["mouse"], seen["draw"]["command"], "keys change it as well");
    assert!(text(&seen["draw"]["spoken"]).contains("Mbit/s"));
    assert_eq!(seen["draw"]["again"]["command"], seen["draw"]["command"]);
    assert_eq!(seen["draw"]["again"]["figures"], seen["draw"]["figures"]);
    let drop = &seen["drop"];
    std::fs::write(folder.join(text(&drop["name"])), text(&drop["text"])).unwrap();
    shown(drop);
    assert!(text(&drop["note"]).contains("not in the link"));
    let trouble = text(&drop["trouble"]);
    assert!(trouble.contains("broken.down") && trouble.contains("line 2"), "{trouble}");
}

fn a_dropped_module_is_a_controller(seen: &Value) {
    let listed = seen["listed"].as_array().unwrap();
    assert!(listed.contains(&"plugin:builtin.wasm".into()), "{seen}");
    let command = text(&seen["command"]);
    assert!(command.contains("--cc cubic --cc plugin:builtin.wasm,which=6 "), "{command}");
    assert!(text(&seen["note"]).contains("drops builtin.wasm again"), "{seen}");
    let [native, module] = seen["figures"].as_array().unwrap().as_slice() else {
        panic!("{seen}");
    };
    decide_the_same(native, module);
    assert_eq!(seen["refused"], NO_START);
    println!("30 s of cubic in a module: {} ms", seen["ms"]);
}

fn hostile_texts_are_texts(seen: &Value) {
    assert_eq!((&seen["drop"]["images"], &seen["hostile"]["images"]), (&0.into(), &0.into()));
    assert!(seen["hostile"]["scripts"].as_u64().unwrap() <= 5, "{}", seen["hostile"]);
    let troubles = |name: &str| -> Vec<&str> {
        seen["hostile"][name].as_array().unwrap().iter().map(text).collect()
    };
    assert!(troubles("troubles").iter().any(|text| text.contains("no queue `<img")));
    assert!(troubles("others").iter().any(|text| text.contains("no controller `<img")));
    assert!(troubles("others").contains(&"cubic is there twice"));
    assert_eq!(seen["hostile"]["left"], 1, "what is right is drawn");
}

fn leads_back(seen: &Value) {
    let page = "compare.html#zoom=1,2";
    assert_eq!((&seen["first"], &seen["later"]), (&page.into(), &page.into()));
    assert!(text(&seen["hash"]).contains("back=compare.html"), "{seen}");
    assert_eq!(seen["hostile"], Value::Null);
}

fn controls_change_the_command(seen: &Value) {
    let choose = &seen["choose"];
    assert!(choose["sliders"].as_u64().unwrap() > 5, "{choose}");
    let part = "--cc verus:original,r=3";
    assert!(text(&choose["command"]).contains(part), "{choose}");
    let more = text(&choose["more"]);
    assert!(
        more.contains(part) && more.contains("--cc copa --duration 10s --handover 20s"),
        "{more}"
    );
}
