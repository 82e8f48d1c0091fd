//! `cellpace cc`: the controllers and their parameters.

use std::process::ExitCode;

use cellpace_base::nearest;
use cellpace_cc::{ControllerInfo, registry};
use clap::Args;

use crate::error::Failure;
use crate::output::print;

/// Arguments of `cellpace cc`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cellpace cc verus")]
pub(crate) struct CcArgs {
    /// A controller; without it, all are listed
    name: Option<String>,
}

pub(crate) fn run(args: &CcArgs) -> Result<ExitCode, Failure> {
    let text = match &args.name {
        None => list(),
        Some(name) => describe(find(name)?),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn find(text: &str) -> Result<&'static ControllerInfo, Failure> {
    let name = cellpace_base::split_name(text).name;
    let names = || registry().iter().map(|info| info.name);
    registry().iter().find(|info| info.name == name).ok_or_else(|| {
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Failure::usage(format!("there is no controller `{name}`; {hint}"))
    })
}

fn list() -> String {
    let width = registry().iter().map(|info| info.name.len()).max().unwrap_or(0);
    registry().iter().map(|info| format!("{:width$}  {}\n", info.name, info.summary)).collect()
}

fn describe(info: &ControllerInfo) -> String {
    let mut text = format!("{}: {}\n", info.name, info.summary);
    if info.params.is_empty() {
        return text + "\nIt has no parameters.\n";
    }
    let rows: Vec<[String; 4]> = info
        .params
        .iter()
        .map(|param| {
            let default = if param.default.is_empty() { "unset" } else { param.default };
            let unit =
                if param.unit.is_empty() { String::new() } else { format!(" {}", param.unit) };
            [
                param.key.to_owned(),
                format!("{default}{unit}"),
                param.kind.to_string(),
                format!("{} ({})", param.help, param.source),
            ]
        })
        .collect();
    let header = ["parameter", "default", "allowed", "what it does (source)"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&header]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    text.push('\n');
    for [key, default, allowed, help] in [&header].into_iter().chain(&rows) {
        text += &format!("  {key:first$}  {default:second$}  {allowed:third$}  {help}\n");
    }
    text + &format!("\nWritten as {}:key=value,key=value\n", info.name)
}
