//! The command line as it arrives: negative values, and options that had another name.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::hints::misplaced;

/// Options that were renamed or removed: the command, the old spelling, what to write instead.
const OLD_OPTIONS: &[(&str, &str, &str)] = &[
    ("attach", "--log", "write -v"),
    ("attach", "--port", "write --in"),
    ("attach", "--seed", "set CELLPACE_SEED"),
    ("proxy", "--connect-timeout", "a destination has 10 s to answer"),
    ("proxy", "--seed", "set CELLPACE_SEED"),
    ("proxy", "--sndbuf", "TCP holds as much as the kernel sees fit"),
    ("run", "--direction", "write --in PORTS, --out PORTS or both; a list of ports may be all"),
    ("run", "--log", "write -v"),
    ("run", "--max-flows", "write --max-connections"),
    ("run", "--seed", "set CELLPACE_SEED"),
    ("run", "--sndbuf", "TCP holds as much as the kernel sees fit"),
    ("run", "--workers", "set CELLPACE_WORKERS"),
    ("compare", "--svg", "write --json FILE, and then `cellpace report FILE --svg DIR`"),
    ("compare", "--timing", "the same command has the same results; use `time cellpace compare`"),
    ("mdi train", "--acks", "receivers acknowledge every packet"),
    ("mdi show", "--plot", "write --json FILE, and then `cellpace report FILE --svg DIR`"),
    ("mdi show", "--zoom", "the delay with the most cells is zoomed"),
    ("mdi train", "--jobs", "all cores are used; `taskset` leaves some out"),
    ("mdi train", "--handover", "a table is learnt on a path without handovers"),
    ("mdi train", "--skip", "a table is learnt from whole runs"),
    ("mdi train", "--uplink", "a table is learnt where the way back is not the bottleneck"),
    ("mdi train", "--uplink-loss", "a table is learnt where the way back loses nothing"),
    ("mdi", "export", "write `cellpace mdi convert`"),
    ("mdi", "import", "write `cellpace mdi convert`"),
    ("probe", "--burst-gap", "half the time between probes ends a burst, but at most 1 ms"),
    ("probe", "--interval", "write --rate, such as 28mbit for 1400 bytes every 0.4ms"),
    ("probe", "--max-duration", "the far side lets itself be used for 1h at most"),
    ("probe", "--max-per-client", "one address gets half of --max-connections"),
    ("probe", "--max-sessions", "write --max-connections"),
    ("probe", "--queue-delay", "--record keeps the queue delay between 750ms and 3s"),
    ("probe", "--saturate", "write --record FILE"),
    ("probe", "--trace-out", "write --record FILE"),
    ("recv", "--buffer", "a flow holds at most 16 MB"),
    ("recv", "--flows", "write --max-connections"),
    ("recv", "--max-per-client", "one address gets a quarter of --max-connections, at least 64"),
    ("recv", "--mtu", "the sender chooses it, by `cellpace send --mtu`"),
    ("recv", "--reverse", "write `cellpace recv HOST`, without it"),
    ("send", "--seed", "set CELLPACE_SEED"),
    ("send", "--buffer", "a flow holds at most 16 MB"),
    ("sim", "--jobs", "all cores are used; `taskset` leaves some out"),
    ("sim", "--svg", "write --json FILE, and then `cellpace report FILE --svg DIR`"),
    ("sim", "--timing", "the same command has the same results; use `time cellpace sim`"),
    ("trace convert", "--from", "the name of the input says it: .csv, .json, or Mahimahi's"),
    ("trace convert", "--to", "the name of the output says it: .csv, .json, or Mahimahi's"),
    ("trace fit", "--name", "the profile is named after the file"),
    ("trace fit", "--seeds", "ten generated traces are compared"),
    ("trace show", "--plot", "`cellpace compare --report FILE.html` draws the trace"),
    ("link", "--clean", "what killed links left behind is removed at each start of a link"),
    ("link", "--acks", "it is the program that acknowledges, not the link"),
    ("link", "--rate", "a constant rate is a trace: write --trace constant:12mbit"),
    ("link", "--mtu", "packets have 1500 bytes at most"),
    ("link", "--snaplen", "a capture holds whole packets"),
];

/// Joins `--option -5mbit` into `--option=-5mbit`, so that the option's own reader can say what is
/// wrong with a negative value. What follows `--` belongs to another program.
pub(crate) fn with_negative_values(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut is_ours = true;
    for arg in args {
        is_ours &= arg != "--";
        match joined.last_mut().filter(|option| is_ours && takes_next(option)) {
            Some(option) if is_negative(&arg) => {
                option.push("=");
                option.push(arg);
            }
            _ => joined.push(arg),
        }
    }
    joined
}

fn takes_next(option: &OsString) -> bool {
    option.to_str().is_some_and(|option| option.starts_with("--") && !option.contains('='))
}

fn is_negative(arg: &OsString) -> bool {
    let digits = arg.to_str().and_then(|arg| arg.strip_prefix('-'));
    digits.is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// What to write in place of an argument that `error` does not know, if that can be said.
pub(crate) fn advice(args: &[OsString], error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::InvalidUtf8 {
        let wrong = args.iter().find(|arg| arg.to_str().is_none())?;
        return Some(format!("{} is no text in UTF-8", wrong.to_string_lossy()));
    }
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let ContextValue::String(unknown) = error.get(context)? else { return None };
    new_spelling(OLD_OPTIONS, args, unknown).or_else(|| misplaced(args, unknown))
}

fn new_spelling(
    old_options: &[(&str, &str, &str)],
    args: &[OsString],
    unknown: &str,
) -> Option<String> {
    let words: Vec<&str> = args.iter().skip(1).take(2).filter_map(|arg| arg.to_str()).collect();
    let command = words.join(" ");
    let is_command = |name: &str| command == name || command.starts_with(&format!("{name} "));
    let (name, old, new) =
        old_options.iter().find(|(name, old, _)| is_command(name) && *old == unknown)?;
    Some(format!("`cellpace {name}` has no {old}: {new}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_negative_value_belongs_to_the_option_in_front_of_it() {
        for (given, joined) in [
            ("c send h --rate -5mbit --cc x", "c send h --rate=-5mbit --cc x"),
            ("c probe h --duration -.5s", "c probe h --duration=-.5s"),
            ("c link --rtt=40ms -5", "c link --rtt=40ms -5"),
            ("c recv --json - --output -", "c recv --json - --output -"),
            ("c recv --once -q", "c recv --once -q"),
            ("c link --rate 5mbit -- head --lines -5", "c link --rate 5mbit -- head --lines -5"),
        ] {
            assert_eq!(with_negative_values(args(given)), args(joined));
        }
    }

    #[test]
    fn an_old_option_is_answered_in_its_command_only() {
        let old =
            [("recv", "--flows", "write --max-connections"), ("mdi show", "--a", "write --b")];
        let spelling = |text: &str, unknown: &str| new_spelling(&old, &args(text), unknown);
        let found = spelling("cellpace recv --flows 5", "--flows");
        let said = "`cellpace recv` has no --flows: write --max-connections";
        assert_eq!(found.as_deref(), Some(said));
        assert!(spelling("cellpace mdi show x --a", "--a").is_some());
        for (text, unknown) in [
            ("cellpace compare --flows", "--flows"),
            ("cellpace recv", "--flow"),
            ("cellpace", "-x"),
        ] {
            assert_eq!(spelling(text, unknown), None, "{text}");
        }
    }
}
