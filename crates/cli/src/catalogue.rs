//! How `cellpace cc` and `cellpace queue` print names and parameters.

use cellpace_base::Param;

/// Columns of a terminal that is not particularly large.
pub(crate) const COLUMNS: usize = 80;

/// Parameters under a heading; nothing where there are none.
pub(crate) fn parameters<'a>(params: impl Iterator<Item = &'a Param>) -> String {
    let params: Vec<&Param> = params.collect();
    if params.is_empty() {
        return String::new();
    }
    let mut text =
        "\nParameters, with their defaults, [what is allowed] and (where they come from):\n"
            .to_owned();
    let name = |param: &Param| format!("{}={}", param.key, default_text(param));
    let width = params.iter().map(|param| name(param).chars().count()).max().unwrap_or(0);
    for param in params {
        let help = format!("{} [{}] ({})", param.help, param.kind, param.source);
        text += &entry(&name(param), width, &help);
    }
    text
}

fn default_text(param: &Param) -> String {
    let default = if param.default.is_empty() { "unset" } else { param.default };
    if param.unit.is_empty() { default.to_owned() } else { format!("{default} {}", param.unit) }
}

/// A name of at most `width` characters, and beside it its help.
pub(crate) fn entry(name: &str, width: usize, help: &str) -> String {
    wrapped(&format!("  {name:width$}  {help}"), &" ".repeat(width + 4))
}

/// Breaks a text into lines of at most [`COLUMNS`] characters, where words allow it; all but the
/// first begin with `indent`.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_inclusive([' ', ',']) {
        let length = line.chars().count() + word.trim_end().chars().count();
        if length > COLUMNS && line.trim_end().len() > indent.len() {
            lines += line.trim_end();
            lines += "\n";
            line = indent.to_owned();
        }
        line += word;
    }
    lines + line.trim_end() + "\n"
}
