//! `cellpace queue`: the queues and their parameters.

use std::process::ExitCode;

use cellpace_base::nearest;
use cellpace_path::queue::{QueueInfo, queue_infos};
use clap::Args;

use crate::catalogue::{entry, parameters, wrapped};
use crate::error::CommandError;
use crate::output::print;

/// Arguments of `cellpace queue`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellpace queue\n  cellpace queue codel")]
pub(crate) struct QueueArgs {
    /// A queue; without it, all are listed
    name: Option<String>,
}

pub(crate) fn run(args: &QueueArgs) -> Result<ExitCode, CommandError> {
    let text = match &args.name {
        None => list(),
        Some(name) => describe(find(name)?),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static QueueInfo, CommandError> {
    let names = || queue_infos().map(|info| info.name);
    queue_infos().find(|info| info.name == name).ok_or_else(|| {
        let near = nearest(name, names()).map(|near| format!("; did you mean `{near}`?"));
        let all = || format!("; there are {}", names().collect::<Vec<_>>().join(", "));
        CommandError::usage(format!("there is no queue `{name}`{}", near.unwrap_or_else(all)))
    })
}

fn list() -> String {
    let width = queue_infos().map(|info| info.name.len()).max().unwrap_or(0);
    queue_infos().map(|info| entry(info.name, width, info.summary)).collect()
}

fn describe(info: &QueueInfo) -> String {
    let text = wrapped(&format!("{}: {}", info.name, info.summary), "");
    let forms = wrapped(&format!("Written: {}", info.example), "         ");
    text + &forms + &parameters(info.params().iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::COLUMNS;

    #[test]
    fn each_queue_fits_a_small_terminal_with_every_parameter() {
        for info in queue_infos() {
            let text = describe(info);
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
            assert!(list().contains(info.name));
            for param in info.params() {
                assert!(text.contains(&format!(" {}=", param.key)), "{}: {text}", param.key);
            }
        }
    }

    #[test]
    fn an_unknown_queue_names_the_nearest() {
        let error = find("droptial").map(|info| info.name).unwrap_err();
        assert_eq!(error.to_string(), "there is no queue `droptial`; did you mean `droptail`?");
    }
}
