//! What the tests of several crates share.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag::register_conditional_default;

/// The variable with the file in which `./dev test` collects what was skipped.
pub const SKIPPED: &str = "CELLPACE_SKIPPED";

/// Has programs that this process starts from now on find the signals that end a program with their
/// default action, also where this process was started with them ignored, as by `nohup` and in
/// background jobs of scripts: a handler is no longer there after an exec, and this one does what the
/// default does.
///
/// # Panics
/// When the system refuses a handler.
pub fn heed_signals() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            register_conditional_default(signal, Arc::new(AtomicBool::new(true)))
                .expect("these signals may have handlers");
        }
    });
}

/// Gives a program that a test starts a configuration of its own in place of that of who runs the
/// tests, with a key in it, and one time at which all pages are made. Returns the command.
///
/// # Panics
/// When the configuration cannot be written beside the tests' programs.
pub fn configured(command: &mut Command) -> &mut Command {
    static CONFIG: OnceLock<PathBuf> = OnceLock::new();
    let config = CONFIG.get_or_init(|| write_config().expect("tests can write where they are"));
    command.env("XDG_CONFIG_HOME", config).env("SOURCE_DATE_EPOCH", "1790000000")
}

fn write_config() -> io::Result<PathBuf> {
    let config = std::env::current_exe()?.with_file_name("config-of-tests");
    fs::create_dir_all(config.join("cellpace"))?;
    // Other tests write the same at the same moment.
    let aside = config.join(format!("key-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    writeln!(file, "cellpace-key-1:{}", "5e".repeat(32))?;
    fs::rename(&aside, config.join("cellpace/key"))?;
    Ok(config)
}

/// The longest that a program may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the end of a program, but not for ever, and returns what it wrote.
///
/// # Panics
/// When it does not end: it is killed then.
pub fn finished(child: Child) -> Output {
    let process = child.id();
    let (sender, output) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = output.recv_timeout(PATIENCE) else {
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
        panic!("process {process} does not end");
    };
    output.expect("a child can be waited for")
}

/// Reports that the running test, or a part of it, is skipped, and why: a few words that say what
/// the machine lacks. Its first line is kept for the summary at the end of `./dev test`.
pub fn skip(reason: impl Display) {
    eprintln!("skipped: {reason}");
    let Some(file) = std::env::var_os(SKIPPED) else { return };
    let reason = reason.to_string();
    let thread = std::thread::current();
    let line = format!(
        "{}\t{}\t{}\n",
        std::env::current_exe().unwrap_or_default().display(),
        thread.name().unwrap_or_default(),
        reason.lines().next().unwrap_or_default(),
    );
    // Tests run at the same time: one write for each line. A summary is not worth a failure.
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
}
