//! The units of systemd that install the kernel driver at the system's start.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::error::CommandError;

const FOLDER: &str = "/etc/systemd/system";
/// The service of the kernel driver, or of a controller that runs in the kernel by itself.
fn service(controller: Option<&str>) -> String {
    controller.map_or("cellpace-kernel.service".to_owned(), |controller| {
        format!("cellpace-kernel-{controller}.service")
    })
}

/// Mounts the file system of the pins: the service is confined, and mounts for itself alone.
const MOUNT: &str = "run-cellpace-bpf.mount";

/// The units as Debian's package has them: `units` has links to its files.
#[cfg(any(feature = "kernel", test))]
const SERVICE_TEXT: &str = include_str!("../../units/cellpace-kernel.service");
#[cfg(feature = "kernel")]
const MOUNT_TEXT: &str = include_str!("../../units/run-cellpace-bpf.mount");

/// The option with which the service writes a sysctl.
#[cfg(any(feature = "kernel", test))]
const DEFAULT: &str = "--default";

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

/// Writes the units and enables the service, or hands them over where there is no systemd. What to say.
#[cfg(feature = "kernel")]
pub(super) fn persist(
    program: &Path,
    controller: Option<&str>,
    arguments: &[String],
) -> Result<String, CommandError> {
    let (name, service) = (&*service(controller), text(&program.to_string_lossy(), arguments));
    let units = [(MOUNT, MOUNT_TEXT), (name, &*service)];
    if !runs() {
        let files = units.map(|(name, text)| format!("# {FOLDER}/{name}\n{text}"));
        return Ok(format!(
            "systemd does not run here. For a machine where it does, or as a pattern for another \
             one's start:\n\n{}",
            files.join("\n")
        ));
    }
    for (name, text) in units {
        let path = Path::new(FOLDER).join(name);
        fs::write(&path, text)
            .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    }
    systemctl(&["daemon-reload"])?;
    // Started as well, which changes nothing: whatever keeps the unit from working shows now, and not
    // at the next start.
    systemctl(&["enable", "--now", name])?;
    Ok(format!("wrote {FOLDER}/{name}: it will be installed at each start of the system\n"))
}

/// Removes the units; whether there was the service.
pub(super) fn forget(controller: Option<&str>) -> Result<bool, CommandError> {
    let service = &*service(controller);
    let had_service = Path::new(FOLDER).join(service).exists();
    if had_service && runs() {
        systemctl(&["disable", "--now", service])?;
    }
    // The mount is that of all: it goes with the driver.
    let gone = [Some(service), controller.is_none().then_some(MOUNT)];
    for name in gone.into_iter().flatten() {
        let path = Path::new(FOLDER).join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CommandError::failed(format!("{}: {error}", path.display())));
            }
            _ => {}
        }
    }
    if had_service && runs() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(had_service)
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
    let line = format!("ExecStart={}", words.collect::<Vec<_>>().join(" "));
    let service = SERVICE_TEXT.replace(PACKAGED, &line);
    match arguments.iter().any(|argument| argument == DEFAULT) {
        true => service.replace("ProtectKernelTunables=yes", "ProtectKernelTunables=no"),
        false => service,
    }
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
        assert!(text.contains("\nProtectKernelTunables=yes\n"));
    }

    #[test]
    fn the_unit_of_a_default_may_set_it() {
        let arguments = ["--cc", "pace:empty=2%", "--default"].map(str::to_owned);
        let text = text("/usr/bin/cellpace", &arguments);
        assert!(text.contains(r#""--cc" "pace:empty=2%%" "--default""#), "{text}");
        assert!(text.contains("\nProtectKernelTunables=no\n"), "{text}");
        assert_eq!(service(Some("pace")), "cellpace-kernel-pace.service");
    }
}
