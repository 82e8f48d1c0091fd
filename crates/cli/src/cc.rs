//! `cellpace cc`: the controllers and their parameters.

use std::process::ExitCode;

use cellpace_base::{Preset, split_name};
use cellpace_cc::{ControllerInfo, DEFAULT_CONTROLLER, controllers, find_controller};
use cellpace_lab::read_controller;
use clap::Args;

use crate::catalogue::{entry, parameters, wrapped};
use crate::error::CommandError;
use crate::output::print;

/// Arguments of `cellpace cc`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellpace cc\n  cellpace cc verus")]
pub(crate) struct CcArgs {
    /// A controller; without it, all are listed
    name: Option<String>,
    /// Also the parameters for experts
    #[arg(long, requires = "name")]
    all: bool,
}

pub(crate) fn run(args: &CcArgs) -> Result<ExitCode, CommandError> {
    let text = match &args.name {
        None => list(),
        Some(name) => {
            let split = split_name(name);
            let info = find_controller(split.name).map_err(CommandError::usage)?;
            let mut text = describe(info, args.all);
            if info.params().is_empty() && !split.rest.is_empty() {
                let spec = read_controller(name).map_err(CommandError::usage)?;
                text += &parameters(spec.declared().iter());
            }
            text
        }
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What to use which controller for, with the reasons: the table of docs/reading-results.md.
const ADVICE: [(&str, &str, &str); 10] = [
    ("bulk on a cellular link", "pace", "nearly all of the link, and a short queue"),
    ("calls, games, video on the same link", "copa", "the call waits least"),
    ("video whose rate can follow", "scream", "fewest late frames"),
    ("short flows", "bbr", "has delivered as much after a second as Cubic"),
    ("beside Cubic, short buffer", "bbr3", "about an equal share"),
    ("beside Cubic, deep buffer", "cubic", "no other gets a share"),
    ("a lossy link", "pace, bbr", "what they have does not fall with loss"),
    ("5G", "pace, bbr", "the others do not fill it; pace has less delay"),
    ("a bottleneck with L4S", "prague", "a queue of a millisecond"),
    ("not known", DEFAULT_CONTROLLER, "the default: nearly all of the link, short queue"),
];

fn list() -> String {
    let width = controllers().map(|info| info.name.len()).max().unwrap_or(0);
    let line = |info: &ControllerInfo| format!("{:width$}  {}\n", info.name, info.summary);
    let mut text: String = controllers().map(line).collect();
    text += "\nWhich one for what (docs/reading-results.md has the figures):\n";
    for (purpose, ccs, why) in ADVICE {
        text += &wrapped(&format!("  {purpose:<36}  {ccs:<14}  {why}"), &" ".repeat(56));
    }
    text
}

fn describe(info: &ControllerInfo, all: bool) -> String {
    let mut text = wrapped(&format!("{}: {}", info.name, info.summary), "");
    text += &parameters(info.params().iter().filter(|param| all || !param.expert));
    if !info.presets.is_empty() {
        text += "\nPresets, in front of parameters:\n";
        let width = info.presets.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
        for preset in info.presets {
            text += &entry(preset.name, width, &preset_help(preset, all));
        }
    }
    let more = info.params().iter().filter(|param| param.expert).count();
    if more > 0 && !all {
        text += &format!("\n{more} more with `cellpace cc {} --all`.\n", info.name);
    }
    text
}

fn preset_help(preset: &Preset, all: bool) -> String {
    if all {
        return format!("{}: {} ({})", preset.summary, preset.values, preset.source);
    }
    format!("{} ({})", preset.summary, preset.source)
}

#[cfg(test)]
mod tests {
    use cellpace_cc::registry;

    use super::*;
    use crate::catalogue::COLUMNS;

    #[test]
    fn each_controller_fits_a_small_terminal() {
        for info in registry() {
            let text = describe(info, false);
            assert!(text.lines().count() <= 30, "{text}");
            for line in text.lines().chain(describe(info, true).lines()) {
                assert!(line.chars().count() <= COLUMNS, "{line}");
            }
        }
    }

    #[test]
    fn the_list_fits_a_small_terminal_and_recommends_what_is_there() {
        assert!(list().lines().all(|line| line.chars().count() <= COLUMNS), "{}", list());
        let page = include_str!("../../../docs/reading-results.md");
        for (purpose, ccs, _) in ADVICE {
            let row = page.lines().find(|line| line.starts_with(&format!("| {purpose} | ")));
            for cc in ccs.split(", ") {
                assert!(find_controller(split_name(cc).name).is_ok(), "{cc}");
                assert!(row.is_some_and(|row| row.contains(&format!("`{cc}`"))), "{purpose}: {cc}");
            }
        }
    }

    #[test]
    fn experts_see_every_parameter_with_its_source_and_each_preset_with_its_values() {
        for info in registry() {
            let text = describe(info, true).replace('\n', " ");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for param in info.params() {
                assert!(text.contains(&format!(" {}=", param.key)), "{}", param.key);
                assert!(text.contains(param.source), "{}", param.source);
            }
            assert!(info.presets.iter().all(|preset| text.contains(preset.summary)));
        }
    }
}
