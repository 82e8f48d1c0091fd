//! Bad input: what is written, the exit code, and the whole answer, in the tables of `bad_input/`.
//! None of it panics, hangs or leaves a file behind.
//!
//! A line `$ ARGUMENTS` stands above the code and the answer, of which what clap adds about usage is
//! left out. `''` is an empty argument, `\xff` a byte, `\_` a blank; `< FILE` and `<<< TEXT` (with
//! `\n`) are standard input. An answer that ends with `...` is only a beginning: what follows is the
//! system's. `SNAPSHOTS=overwrite` writes the tables anew: read the difference.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::program::Folder;

/// Inputs that are answered at least; each is there once.
const AT_LEAST: usize = 400;

/// What a person should not see.
const INTERNALS: [&str; 7] = [
    "panicked",
    "Os {",
    "os error",
    "entity not found",
    "ParseIntError",
    "invalid digit found",
    "Utf8Error",
];

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files that the commands of the tables find.
fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("drive.down", "1\n2\n4\n"),
        ("falls.down", "5\n3\n"),
        ("words.down", "one\ntwo\n"),
        ("negative.down", "-1\n2\n"),
        ("fraction.down", "0.5\n1.5\n"),
        ("zero.down", "0\n0\n"),
        ("empty.down", ""),
        ("gap.down", "1\n\n2\n"),
        ("far.down", "1\n4294967296\n"),
        ("two-columns.down", "1 1500\n2 1500\n"),
        ("rates.csv", "time_s,mbps\n0,12\n1,x\n"),
        ("header.csv", "time_s,mbps\n"),
        ("steady.csv", "time_s,mbps\n0,12\n1,12\n"),
        ("joint.csv", "time_s,mbps,rtt_ms,loss\n0,12,30,0\n1,12,30,7\n"),
        ("back.csv", "time_s,mbps\n1,6\n0,12\n"),
        ("less.csv", "time_s,mbps\n0,-12\n"),
        ("nan.csv", "time_s,mbps\n0,nan\n"),
        ("no-json.json", "{\"opportunities_ms\": [3, 2]}"),
        ("word.json", "{\"opportunities_ms\": \"x\"}"),
        ("half.down.gz", "\u{1f}"),
        ("a.profile", "mean = 3\n"),
        ("junk.mdi", "junk"),
        ("matrix.csv", "1,2,3\n"),
        ("samples.csv", "chain,users,delay_ms,window_pkts,sent\n0,1,20\n"),
        ("samples-word.csv", "chain,users,delay_ms,window_pkts,sent\n0,1,x,4,2\n"),
        ("samples-nan.csv", "chain,users,delay_ms,window_pkts,sent\n0,1,nan,4,2\n"),
        ("samples-none.csv", "chain,users,delay_ms,window_pkts,sent\n"),
        ("delays", "0 -20\n"),
        ("delay-words", "0 x\n"),
        ("delays-back", "5 20\n1 20\n"),
        ("delays-one", "5\n"),
        ("losses", "0 2\n"),
        ("losses-high", "0 101\n"),
        ("flow.toml", "trace = \"constant:12mbit\"\n[[flow]]\ncc = \"fixed\"\n"),
        ("no-trace.toml", "[[flow]]\ncc = \"cubic\"\n"),
        ("no-flow.toml", "trace = \"constant:12mbit\"\n"),
        ("late.toml", "trace = \"constant:9mbit\"\n[[flow]]\ncc = \"cubic\"\nstart = \"2h\"\n"),
        ("silent.toml", "trace = \"constant:0mbit\"\n[[flow]]\ncc = \"cubic\"\n"),
        ("csv.toml", "trace = \"rates.csv\"\n[[flow]]\ncc = \"cubic\"\n"),
        ("cut.json", "{\"schema\": \"cellpace.compare/1\", \"runs\": ["),
        ("bare.json", "{\"runs\": []}"),
        ("list.json", "[1, 2]"),
        ("foreign.json", "{\"schema\": \"other/7\"}"),
        ("newer.json", "{\"schema\": \"cellpace.compare/9\", \"runs\": []}"),
        ("hollow.json", "{\"schema\": \"cellpace.compare/1\"}"),
        ("hollow-probe.json", "{\"schema\": \"cellpace.probe/1\"}"),
        ("kernel.json", "{\"schema\": \"cellpace.kernel/1\"}"),
        ("mixed.json", "{\"schema\": \"cellpace.run/1\"}\n{\"schema\": \"cellpace.proxy/1\"}\n"),
        ("number.json", "{\"schema\": 7}"),
        ("path.key", "cellpace-key-1:00\n"),
        ("word.key", "secret\n"),
        ("open.key", "cellpace-key-1:00\n"),
        ("no-name", "\n"),
        ("script", "#!/no/such/interpreter\n"),
    ] {
        folder.write(name, text);
    }
    folder.write("cut.down.gz", [0x1f, 0x8b, 8, 0, 0]);
    folder.write("bytes", [0xff, 0xfe, 0, 1]);
    for private in ["path.key", "word.key"] {
        fs::set_permissions(folder.path(private), fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::set_permissions(folder.path("open.key"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    File::create(folder.path("huge")).unwrap().set_len(2 << 30).unwrap();
    fs::create_dir(folder.path("folder")).unwrap();
    folder
}

/// One input, and what is answered: code and text.
struct Row {
    line: String,
    expected: String,
}

/// The tables, each with its file and what stands above its first input.
fn tables() -> Vec<(PathBuf, String, Vec<Row>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad_input");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let mut rows = Vec::new();
        let (head, rest) = text.split_once("$ ").unwrap_or((&text, ""));
        for block in rest.split("\n$ ").filter(|block| !block.is_empty()) {
            let (line, expected) = block.split_once('\n').unwrap_or((block, ""));
            let (line, expected) = (line.to_owned(), expected.trim_end().to_owned());
            rows.push(Row { line, expected });
        }
        (file, head.to_owned(), rows)
    };
    files.into_iter().map(read).collect()
}

/// The arguments of a line, and what is on standard input.
fn words(line: &str) -> (Vec<OsString>, Option<&str>, Option<String>) {
    let (line, text) = match line.split_once(" <<< ") {
        Some((line, text)) => (line, Some(text.replace("\\n", "\n"))),
        None => (line, None),
    };
    let (line, file) =
        line.split_once(" < ").map_or((line, None), |(line, file)| (line, Some(file)));
    let word = |word: &str| {
        let word = word.replace("\\_", " ").replace("''", "");
        match word.split_once("\\xff") {
            Some((before, after)) => {
                OsString::from_vec([before.as_bytes(), b"\xff", after.as_bytes()].concat())
            }
            None => OsString::from(word),
        }
    };
    (line.split_whitespace().map(word).collect(), file, text)
}

/// The answer as it stands in a table, or that there is none in time.
fn answer(folder: &Folder, line: &str) -> String {
    let (args, file, text) = words(line);
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(text.unwrap_or_default().as_bytes()).unwrap();
    input.seek(SeekFrom::Start(0)).unwrap();
    if let Some(file) = file {
        input = File::open(folder.path(file)).unwrap();
    }
    let [mut out, mut error] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let mut command = folder.command(&args);
    command.env_remove("CELLPACE_LINK").stdin(input);
    command.stdout(Stdio::from(out.try_clone().unwrap()));
    let mut child = command.stderr(Stdio::from(error.try_clone().unwrap())).spawn().unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return "does not end".to_owned();
        }
        sleep(Duration::from_millis(2));
    };
    let mut said = [String::new(), String::new()];
    for (said, file) in said.iter_mut().zip([&mut out, &mut error]) {
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(said).unwrap();
    }
    let [out, error] = said;
    let code = status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string());
    // A check that failed shows its findings, too.
    let text = format!("{out}{error}");
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    format!("{code} {}", text.trim_end().replace('\n', "\n  "))
}

/// What is wrong with an answer, whatever was expected.
fn flaw(line: &str, answer: &str) -> Option<String> {
    let Some((code, text)) = answer.split_once(' ') else { return Some("no answer".to_owned()) };
    if !["1", "2", "126", "127"].contains(&code) {
        return Some(format!("the exit code {code}"));
    }
    if let Some(found) = INTERNALS.iter().find(|internal| text.contains(**internal)) {
        return Some(format!("`{found}` in it"));
    }
    let is_clap = text.starts_with("error: ");
    let is_check = line.starts_with("trace check");
    if !is_clap && !is_check && (!text.starts_with("cellpace: ") || text.contains('\n')) {
        return Some("more or less than one line".to_owned());
    }
    let mut parts = text.split(": ").map(|part| part.trim_start_matches('-'));
    let mut before = parts.next()?;
    for part in parts {
        if part == before && !part.contains(' ') {
            return Some(format!("`{part}` twice"));
        }
        before = part;
    }
    None
}

fn fits(answer: &str, expected: &str) -> bool {
    match expected.strip_suffix("...") {
        Some(beginning) => answer.starts_with(beginning),
        None => answer == expected,
    }
}

#[test]
fn bad_input_is_answered_with_what_to_write() {
    let folder = folder();
    let before = folder.names();
    let is_overwriting = std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite");
    let (mut wrong, mut seen) = (String::new(), HashSet::new());
    for (file, head, rows) in tables() {
        let mut text = head;
        for Row { line, expected } in rows {
            assert!(seen.insert(line.clone()), "twice: {line}");
            let answer = answer(&folder, &line);
            if let Some(flaw) = flaw(&line, &answer) {
                wrong += &format!("$ {line}\n{flaw}: {answer}\n");
            } else if !fits(&answer, &expected) && !is_overwriting {
                wrong += &format!("$ {line}\n{answer}\nwanted\n{expected}\n");
            }
            let kept = if fits(&answer, &expected) { &expected } else { &answer };
            text += &format!("$ {line}\n{kept}\n");
        }
        if is_overwriting {
            fs::write(file, text).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(seen.len() >= AT_LEAST, "{} inputs", seen.len());
    let written: Vec<String> =
        folder.names().into_iter().filter(|name| !before.contains(name)).collect();
    // What `trace check` found is a result.
    assert_eq!(written, ["out.json"]);
}
