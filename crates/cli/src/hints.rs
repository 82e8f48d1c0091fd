//! What to write instead, where an argument is in a place that does not take it.

use std::ffi::OsString;
use std::path::Path;

use cellpace_base::split_name;
use cellpace_cc::find_controller;

/// Commands that take a program behind `--`.
const WITH_PROGRAM: [&str; 2] = ["run", "link"];

/// Returns what to write instead of `wrong`, an argument for which there is no place, if we know.
pub(crate) fn misplaced(args: &[OsString], wrong: &str) -> Option<String> {
    let args: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    other_name(wrong, &args)
        .or_else(|| repeated_controllers(wrong, &args))
        .or_else(|| bare_traces(wrong, &args))
        .or_else(|| missing_dashes(wrong, &args))
}

/// What other programs call the option `--cc`.
const OF_CC: [&str; 4] = ["--controller", "--congestion-control", "--congestion", "--algorithm"];

/// `--controller copa` in place of `--cc copa`.
fn other_name(wrong: &str, args: &[&str]) -> Option<String> {
    if !OF_CC.contains(&wrong) {
        return None;
    }
    let at = args.iter().position(|arg| arg.split('=').next() == Some(wrong))?;
    let value = args[at].split_once('=').map(|(_, value)| value);
    let value = value.or_else(|| args.get(at + 1).copied()).filter(|value| !value.starts_with('-'));
    Some(format!("{wrong}: the controller is an option --cc: --cc {}", value.unwrap_or("NAME")))
}

/// `--cc verus copa` in place of `--cc verus --cc copa`.
fn repeated_controllers(wrong: &str, args: &[&str]) -> Option<String> {
    let is_controller = |text: &str| find_controller(split_name(text).name).is_ok();
    if !is_controller(wrong) {
        return None;
    }
    let first = args.iter().position(|arg| *arg == "--cc")? + 1;
    let ccs: Vec<&str> =
        args.get(first..)?.iter().copied().take_while(|arg| is_controller(arg)).collect();
    ccs.contains(&wrong).then(|| format!("--cc: repeat it: {}", repeated(&ccs)))
}

/// Returns what to write for several controllers.
pub(crate) fn repeated(ccs: &[&str]) -> String {
    ccs.iter().map(|cc| format!("--cc {cc}")).collect::<Vec<_>>().join(" ")
}

/// `link UP DOWN` in place of `link --uplink UP --trace DOWN`.
fn bare_traces(wrong: &str, args: &[&str]) -> Option<String> {
    if args.first() != Some(&"link") {
        return None;
    }
    let start = args.iter().position(|arg| *arg == wrong)?;
    let words = args[start..].iter().copied().take_while(|arg| !arg.starts_with('-'));
    let words: Vec<&str> = words.collect();
    match words[..] {
        [up, down] if Path::new(up).is_file() && Path::new(down).is_file() => Some(format!(
            "link: traces are options here; what `mm-link {up} {down}` does, write --uplink {up} \
             --trace {down}"
        )),
        [trace] if Path::new(trace).is_file() => {
            Some(format!("link: a trace is an option here; write --trace {trace}"))
        }
        _ => None,
    }
}

/// A program without `--` in front of it.
fn missing_dashes(wrong: &str, args: &[&str]) -> Option<String> {
    let command = args.first().filter(|command| WITH_PROGRAM.contains(command))?;
    if wrong.starts_with('-') || args.contains(&"--") {
        return None;
    }
    let start = args.iter().position(|arg| *arg == wrong)?;
    let program = args[start..].join(" ");
    Some(format!("{command}: put `--` in front of the program: -- {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(args: &str, wrong: &str) -> Option<String> {
        let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
        misplaced(&args, wrong)
    }

    #[test]
    fn controllers_in_a_row_are_repeated() {
        let hint = |args, wrong| hint(args, wrong);
        assert_eq!(
            hint("cellpace compare --cc verus:r=4 copa bbr --rtt 1ms", "copa").unwrap(),
            "--cc: repeat it: --cc verus:r=4 --cc copa --cc bbr"
        );
        assert_eq!(hint("cellpace compare copa --cc verus", "copa"), None);
        assert_eq!(hint("cellpace compare --cc verus x", "x"), None);
    }

    #[test]
    fn the_option_of_the_controller_is_named() {
        let said = "--controller: the controller is an option --cc: --cc copa";
        for args in ["cellpace run --controller copa -- x", "cellpace run --controller=copa -- x"] {
            assert_eq!(hint(args, "--controller").unwrap(), said);
        }
        let named = hint("cellpace compare --algorithm --rtt 1ms", "--algorithm").unwrap();
        assert!(named.ends_with("--cc NAME"), "{named}");
        assert_eq!(hint("cellpace compare --colour", "--colour"), None);
    }

    #[test]
    fn a_program_stands_behind_dashes() {
        let missing = hint("cellpace run --cc copa ping -c 5 there", "ping").unwrap();
        assert_eq!(missing, "run: put `--` in front of the program: -- ping -c 5 there");
        assert_eq!(hint("cellpace run --foo", "--foo"), None);
        assert_eq!(hint("cellpace compare ping", "ping"), None);
    }
}
