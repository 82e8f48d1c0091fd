//! Builds the module and puts the page together: one file that needs nothing else.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;

/// What the module is compiled for.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

const TEMPLATE: &str = include_str!("../../page/index.html");
const STYLE: &str = include_str!("../../page/style.css");
const REPORT_STYLE: &str = include_str!("../../../report/assets/page.css");
const UPLOT: &str = include_str!("../../../report/assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../../report/assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../../report/assets/uplot/LICENSE");

const MODULE_SCRIPT: &str = include_str!("../../page/module.mjs");
/// The scripts of the worker and of the page, each before those that import it.
const WORKER: [&str; 2] = [MODULE_SCRIPT, include_str!("../../page/worker.mjs")];
const PAGE: [&str; 14] = [
    include_str!("../../../report/assets/page/numbers.js"),
    include_str!("../../../report/assets/page/plot.js"),
    include_str!("../../../report/assets/page/axes.js"),
    include_str!("../../../report/assets/page/dom.js"),
    include_str!("../../../report/assets/page/looks.js"),
    include_str!("../../../report/assets/page/chart.js"),
    include_str!("../../../report/assets/page/still.js"),
    include_str!("../../page/quantity.mjs"),
    include_str!("../../page/state.mjs"),
    include_str!("../../page/engine.mjs"),
    include_str!("../../page/charts.mjs"),
    include_str!("../../page/controls.mjs"),
    include_str!("../../page/pen.mjs"),
    include_str!("../../page/main.mjs"),
];

/// Controllers of different looks: more than the page shows.
const LOOKS: usize = 56;

/// Compiles the module and returns where it is.
///
/// # Errors
/// When cargo fails, with what it wrote.
pub(crate) fn build_module() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--profile", "web", "--target", TARGET]);
    command.args(["--package", "cellpace-web", "--lib", "--target-dir"]).arg(&target);
    // What a surrounding `cargo test` has set is not for another machine.
    command.current_dir(&root).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(target.join(TARGET).join("web/cellpace_web.wasm"))
}

/// The page around a module.
pub(crate) fn page(module: &[u8]) -> String {
    fill(
        TEMPLATE,
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("uplot-licence", UPLOT_LICENCE),
            ("uplot-style", UPLOT_STYLE),
            ("colours", &cellpace_report::palette_css()),
            ("report-style", REPORT_STYLE),
            ("style", STYLE),
            ("module", &BASE64.encode(&gzipped(module))),
            ("looks", &cellpace_report::looks_json(LOOKS)),
            ("worker", &joined(&WORKER)),
            ("uplot", UPLOT),
            ("script", &joined(&PAGE)),
        ],
    )
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes what it is given")
}

/// ES modules as one script: a page that is opened as a file cannot import others. Names at the top
/// level are different in all of them; the browser refuses a script in which they are not.
fn joined(modules: &[&str]) -> String {
    let lines = modules.iter().flat_map(|text| text.lines());
    let lines = lines.filter(|line| !line.starts_with("import "));
    lines.map(|line| line.strip_prefix("export ").unwrap_or(line).to_owned() + "\n").collect()
}

/// Puts the parts into their places in one pass: what looks like a place within a part stays.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let (mut page, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("places of the template end");
        let part = parts.iter().find(|(known, _)| *known == name);
        page += before;
        page += part.unwrap_or_else(|| panic!("the template has no part `{name}`")).1;
        rest = after;
    }
    page + rest
}
