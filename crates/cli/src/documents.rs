//! What packages install beside the program: completions of shells, and manual pages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

use crate::error::CommandError;
use crate::output::print;

/// Arguments of `cellpace completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace completions bash > ~/.local/share/bash-completion/completions/cellpace
  cellpace completions zsh > \"${fpath[1]}/_cellpace\"
  cellpace completions fish > ~/.config/fish/completions/cellpace.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `cellpace man-pages`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace man-pages man1")]
pub(crate) struct ManPagesArgs {
    /// The folder to write them to, one page for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn print_completions(
    args: &CompletionsArgs,
    mut program: Command,
) -> Result<ExitCode, CommandError> {
    let shell = match args.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let names = OfferedNames::known();
    program = names.offered_by(program);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "cellpace", &mut script);
    print(&names.beside_files(args.shell, &String::from_utf8_lossy(&script)))?;
    Ok(ExitCode::SUCCESS)
}

/// The names that shells offer for controllers and traces. Both options take other texts, too, and
/// traces are often files: so names are offered, and not what the options are read by.
struct OfferedNames {
    controllers: Vec<&'static str>,
    traces: Vec<&'static str>,
}

impl OfferedNames {
    fn known() -> Self {
        Self {
            controllers: cellpace_cc::controllers().map(|info| info.name).collect(),
            traces: cellpace_path::profile::NAMES.to_vec(),
        }
    }

    /// The program, with the names as the values of these options of all commands.
    fn offered_by(&self, program: Command) -> Command {
        let program = program.mut_args(|arg| match arg.get_long() {
            Some("cc") => arg.value_parser(PossibleValuesParser::new(self.controllers.clone())),
            Some("trace" | "uplink") => {
                arg.value_parser(PossibleValuesParser::new(self.traces.clone()))
            }
            _ => arg,
        });
        program.mut_subcommands(|command| self.offered_by(command))
    }

    /// The script, which offers files beside the names of traces.
    fn beside_files(&self, shell: CompletionShell, script: &str) -> String {
        let names = self.traces.join(" ");
        match shell {
            CompletionShell::Bash => {
                let offer = format!("compgen -W \"{names}\"");
                script.replace(&offer, &format!("compgen -f -W \"{names}\""))
            }
            CompletionShell::Zsh => {
                let function = format!(
                    "_cellpace_traces() {{\n    _alternative 'names:trace:({names})' \
                     'files:file:_files'\n}}\n\n"
                );
                let script = script.replace(&format!(":({names})"), ":_cellpace_traces");
                script.replacen("_cellpace() {", &format!("{function}_cellpace() {{"), 1)
            }
            CompletionShell::Fish => {
                let is_trace = |line: &&str| self.traces.iter().all(|name| line.contains(name));
                let lines = script.lines().map(|line| match is_trace(&line) {
                    true => line.replacen(" -f ", " ", 1) + "\n",
                    false => format!("{line}\n"),
                });
                lines.collect()
            }
        }
    }
}

pub(crate) fn write_man_pages(
    args: &ManPagesArgs,
    program: Command,
) -> Result<ExitCode, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::failed(format!("{}: {error}", args.folder.display()));
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(program, &args.folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
