//! What packages install beside the program: completions of shells, and manual pages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

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
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "cellpace", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
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
