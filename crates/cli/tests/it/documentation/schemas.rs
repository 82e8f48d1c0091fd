//! The schemas in `docs/reference/schemas/` are those of what the program writes, and
//! `docs/reference/schemas.md` lists them. `SNAPSHOTS=overwrite` writes the page anew.

use std::fs;
use std::path::Path;

use serde_json::Value;
use snapbox::{Assert, Data};

use super::pages;
use super::session::{self, User};

/// Commands that write every document; each writes `NAME` or `NAME-...`, where NAME is a schema's.
const COMMANDS: [&str; 22] = [
    "cellpace attack --cc vegas --against copa --rate 1mbit..2mbit --budget 24 --json attack.json",
    "cellpace compare --cc verus --cc copa --repeat 2 --duration 5s --json compare-repeat.json",
    "cellpace report compare-repeat.json --diff --json difference.json",
    "cellpace compare --cc bbr --duration 5s --json compare-one.json --events events.jsonl",
    "printf 'duration=\"9s\"\\n[path.a]\\n[path.b]\\ntrace=\"lte-driving\"\\n[pep]\\ncc=\"copa\"\\n[[flow]]\\ncc=\"bbr\"\\n' >chain.toml && cellpace sim chain.toml --json compare-chain.json",
    "printf 'cc=[\"copa\",{name=\"verus\",r=[2,4]}]\nduration=\"3s\"\nseeds=\"1..2\"\n[[path]]\ntrace=\"lte-driving\"\nflows=2\n' >plan.toml && cellpace sweep plan.toml && cp plan/manifest.json sweep.json",
    "cellpace trace show lte-driving umts-driving --duration 20s --json trace-show.json",
    "cellpace trace predict lte-driving --json trace-predict.json",
    "cellpace trace make lte-driving --duration 60s -o drive.down",
    "cellpace trace check drive.down lte-driving --json trace-check.json",
    "cellpace trace fit drive.down -o drive.profile --json trace-fit.json",
    "cellpace mdi train --cc copa --trace lte-driving --users 1 --duration 20s -o copa.mdi",
    "cellpace mdi show copa.mdi --json mdi-show.json",
    "cellpace kernel status --json kernel.json",
    "cellpace recv --once --json transfer-recv.json & server=$!; sleep 0.2",
    "cellpace send 127.0.0.1 --bytes 1MB --json transfer-send.json --events events-udp.jsonl; wait $server",
    "cellpace probe --listen 5261 & sleep 0.2",
    "cellpace probe 127.0.0.1:5261 --duration 1s --ecn ect1 --onoff 1mbit:on=200ms,off=200ms --json probe.json",
    "cellpace probe 127.0.0.1:5261 --duration 1s --record probe.trace --json probe-record.json",
    "cellpace conform --quiet --only slow-start --cc copa --json conform.json || test $? = 3",
    "cellpace run --dashboard 0 --driver gate -- sleep 3 2>live.log & server=$!; sleep 1
at=$(grep -o 'http[^#]*' live.log); key=$(sed -n 's/.*#k=//p' live.log)
if command -v curl >tool; then curl -s -f -H \"Authorization: Bearer $key\" ${at}api/state >live.json; fi; wait $server",
    "cellpace run --driver gate --json connections-run.jsonl -- python3 -c 'import socket, threading
s = socket.create_server((\"127.0.0.1\", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b\"x\" * 100000)).start()
c = socket.create_connection(s.getsockname())
while c.recv(65536): pass'",
];

fn schema(name: &str) -> Value {
    let path = pages::root().join(format!("docs/reference/schemas/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn names() -> Vec<String> {
    let files = fs::read_dir(pages::root().join("docs/reference/schemas")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.map(|name| name.replace(".json", "")).collect();
    names.sort();
    names
}

/// The documents in a file: one, or one a line.
fn documents(name: &str, text: &str) -> Vec<Value> {
    if name.ends_with(".jsonl") {
        return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    }
    vec![serde_json::from_str(text).unwrap()]
}

#[test]
fn what_the_program_writes_has_its_schema() {
    let mut commands = COMMANDS.map(str::to_owned).to_vec();
    if !session::is_installed("python3") {
        cellpace_testing::skip("no python3 for the schema of `run`");
        commands.pop();
    }
    let links =
        session::is_installed("curl") && session::is_root() && Path::new("/dev/net/tun").exists();
    if !links {
        cellpace_testing::skip("no curl, root or /dev/net/tun for the schema of `conform`");
        commands.retain(|command| !command.starts_with("cellpace conform"));
    }
    let (ended, files) = session::run_and_keep(&commands, User::Same);
    for (command, ended) in commands.iter().zip(&ended) {
        assert_eq!(ended.code, 0, "{command}\n{}", ended.output);
    }
    assert_eq!(ended.len(), commands.len(), "the last one does not end");
    let mut unseen: Vec<_> = names();
    for (file, bytes) in files.iter().filter(|(file, _)| file.contains(".json")) {
        // The longest name that the file begins with: trace-show-..., events-....
        let stem = file.split('.').next().unwrap();
        let Some(name) = names().into_iter().filter(|name| stem.starts_with(name.as_str())).max()
        else {
            panic!("{file} belongs to no schema");
        };
        unseen.retain(|one| *one != name);
        let validator = jsonschema::validator_for(&schema(&name)).unwrap();
        for document in documents(file, std::str::from_utf8(bytes).unwrap()) {
            let errors = validator.iter_errors(&document);
            let errors: Vec<_> =
                errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{file} is not of schema {name}:\n{}", errors.join("\n"));
        }
    }
    unseen.retain(|name| name != "connections" || session::is_installed("python3"));
    unseen.retain(|name| name != "conform" || links);
    // It needs a controller in the kernel: tests/it/kernel_native.rs writes it and checks it.
    unseen.retain(|name| name != "kernel-watch");
    unseen.retain(|name| name != "live" || session::is_installed("curl"));
    assert!(unseen.is_empty(), "nothing was written of {unseen:?}");
}

const INTRODUCTION: &str = "# Results as JSON

Every result names its schema in the field `schema`. Within a version fields are only added. Each section below names a
JSON Schema file in [schemas](schemas), which has every field with its meaning. `./dev book` writes them below each heading.
";

#[test]
fn the_page_lists_every_schema() {
    let mut page = INTRODUCTION.to_owned();
    for name in names() {
        let schema = schema(&name);
        let (title, meaning) = (schema["title"].as_str().unwrap(), &schema["description"]);
        let meaning = meaning.as_str().unwrap();
        page.push_str(&format!("\n## {title}\n\n[{name}.json](schemas/{name}.json). {meaning}\n"));
    }
    let path = pages::root().join("docs/reference/schemas.md");
    let asserting = Assert::new().action_env(snapbox::assert::DEFAULT_ACTION_ENV);
    asserting.eq(Data::text(page), Data::read_from(&path, None).raw());
}
