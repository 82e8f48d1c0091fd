//! Processes: which there are, and how they ended.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Numbers of all processes that are to be seen.
pub fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Numbers of the processes whose parent is this one, adopted ones included.
pub fn children() -> impl Iterator<Item = i32> {
    let own = std::process::id();
    all().filter(move |process| parent(*process).is_ok_and(|parent| parent == own))
}

/// Numbers of the processes that this one has started, and of those that they have.
pub fn descendants() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let parents: HashMap<i32, i32> =
        all().filter_map(|process| Some((process, parent(process).ok()?.cast_signed()))).collect();
    let is_ours = |process: &i32| {
        let mut above = *process;
        // What ends meanwhile may make a loop of numbers that are used again.
        for _ in 0..MAX_DEPTH {
            match parents.get(&above) {
                Some(parent) if *parent == own => return true,
                Some(parent) => above = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(is_ours).collect()
}

/// Generations of processes that are followed.
const MAX_DEPTH: u32 = 1000;

/// A process's name as the system shows it; empty if it has ended.
pub fn name(process: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn parent(process: i32) -> io::Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may have spaces and parentheses; state and parent follow it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let parent = rest.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
    parent.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the exit code as a shell would: 128 and the number for a signal.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns why a program does not start, for people.
pub fn start_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such program".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be executed".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let status = |text: &str| Command::new("sh").args(["-c", text]).status().unwrap();
        assert_eq!(exit_code(status("exit 7")), 7);
        assert_eq!(exit_code(status("kill -9 $$")), 137);
        assert_eq!(exit_code(status("kill -TERM $$")), 143);
    }

    #[test]
    fn a_child_is_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id().cast_signed();
        assert!(children().any(|process| process == number));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(children().all(|process| process != number));
    }
}
