//! The unit of systemd that installs the kernel driver at the system's start.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::error::CommandError;

const NAME: &str = "cellpace-kernel.service";
const FOLDER: &str = "/etc/systemd/system";

/// The unit as Debian's package has it.
#[cfg(any(feature = "kernel", test))]
const UNIT: &str = include_str!("../../../../packaging/debian/cellpace-kernel.service");

/// What it starts.
#[cfg(any(feature = "kernel", test))]
const PACKAGED: &str = "ExecStart=/usr/bin/cellpace kernel install";

/// This program, if root alone can put another in its place: systemd runs it as root.
#[cfg(feature = "kernel")]
pub(super) fn program() -> Result<std::path::PathBuf, CommandError> {
    let program = std::env::current_exe().map_err(CommandError::failed)?;
    check(&program).map_err(CommandError::failed)?;
    Ok(program)
}

/// The program and every folder above it must belong to root, and nobody else may write to them.
/// The path has no symbolic links. Fails with what is wrong and what to do.
#[cfg(any(feature = "kernel", test))]
fn check(program: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let parts: Vec<_> = program.ancestors().collect();
    for part in parts.into_iter().rev() {
        let facts =
            fs::symlink_metadata(part).map_err(|error| format!("{}: {error}", part.display()))?;
        let (owner, group, mode) = (facts.uid(), facts.gid(), facts.mode() & 0o7777);
        let group_may_write = group != 0 && mode & 0o020 != 0;
        if owner != 0 || group_may_write || mode & 0o002 != 0 {
            return Err(format!(
                "--persist: others than root can replace {}, which would run as root at each start: \
                 {} belongs to user {owner} and group {group} with mode {mode:04o}; run `install -o root \
                 -g root -m 755 {0} /usr/local/bin/cellpace`, and then /usr/local/bin/cellpace",
                program.display(),
                part.display(),
            ));
        }
    }
    Ok(())
}

/// Writes and enables the unit, or hands it over where there is no systemd. What to say.
#[cfg(feature = "kernel")]
pub(super) fn persist(program: &Path, arguments: &[String]) -> Result<String, CommandError> {
    let text = text(&program.to_string_lossy(), arguments);
    if !runs() {
        return Ok(format!(
            "systemd does not run here. For {FOLDER}/{NAME} on a machine where it does, or as a \
             pattern for another one's start:\n\n{text}"
        ));
    }
    let path = Path::new(FOLDER).join(NAME);
    fs::write(&path, text)
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    systemctl(&["daemon-reload"])?;
    // Started as well, which changes nothing: whatever keeps the unit from working shows now, and not
    // at the next start.
    systemctl(&["enable", "--now", NAME])?;
    Ok(format!("wrote {}: it will be installed at each start of the system\n", path.display()))
}

/// Removes the unit; whether there was one.
pub(super) fn forget() -> Result<bool, CommandError> {
    let path = Path::new(FOLDER).join(NAME);
    if !path.exists() {
        return Ok(false);
    }
    if runs() {
        systemctl(&["disable", "--now", NAME])?;
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(CommandError::failed(format!("{}: {error}", path.display())));
        }
        _ => {}
    }
    if runs() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(true)
}

/// As sd_booted(3) finds out.
fn runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

fn systemctl(arguments: &[&str]) -> Result<(), CommandError> {
    let status = Command::new("systemctl").args(arguments).status();
    match status.map_err(|error| CommandError::failed(format!("systemctl: {error}")))? {
        status if status.success() => Ok(()),
        _ => Err(CommandError::failed(format!("systemctl {} failed", arguments.join(" ")))),
    }
}

#[cfg(any(feature = "kernel", test))]
fn text(program: &str, arguments: &[String]) -> String {
    let words = [program, "kernel", "install"].into_iter();
    let words = words.chain(arguments.iter().map(String::as_str)).map(quoted);
    UNIT.replace(PACKAGED, &format!("ExecStart={}", words.collect::<Vec<_>>().join(" ")))
}

/// As systemd.service(5), \"Command lines\", reads it.
#[cfg(any(feature = "kernel", test))]
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('%', "%%").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_system_can_be_run_at_each_start() {
        let program = fs::canonicalize("/bin/sh").unwrap();
        if let Err(error) = check(&program) {
            cellpace_testing::skip(error);
        }
        let error = check(Path::new("/no/such/program")).unwrap_err();
        assert!(error.starts_with("/no: "), "{error}");
    }

    #[test]
    fn the_unit_installs_the_same_again() {
        let text = text("/opt/100% \"x\"/cellpace", &["--group".into(), "net".into()]);
        let line = r#"ExecStart="/opt/100%% \"x\"/cellpace" "kernel" "install" "--group" "net""#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
