//! The command line as it arrives: negative values, and advice on arguments that are not known.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::hints::misplaced;

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
    misplaced(args, unknown)
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
}
