//! Options of a service in a file, one on a line, written as on the command line: `--cc pace`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{CommandError, named};
use crate::options::read_text;

/// The options of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    lines: Vec<ConfigLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigLine {
    number: usize,
    /// With its dashes.
    option: String,
    value: Option<String>,
}

impl ConfigLine {
    /// A line that is not empty and no comment.
    fn read(number: usize, text: &str) -> Result<Self, String> {
        let end = text.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(text.len());
        let (option, value) = (text[..end].to_owned(), text[end..].trim());
        if !option.starts_with('-') || option.trim_start_matches('-').is_empty() {
            return Err("write an option as on the command line: --cc pace".to_owned());
        }
        if [CONFIG, "--help", "-h", "--version", "-V"].contains(&option.as_str()) {
            return Err(format!("{option} is for the command line only"));
        }
        let value = value.strip_prefix('=').unwrap_or(value).trim();
        Ok(Self { number, option, value: Some(value.to_owned()).filter(|value| !value.is_empty()) })
    }

    fn arg(&self) -> OsString {
        match &self.value {
            Some(value) => format!("{}={value}", self.option).into(),
            None => self.option.clone().into(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (&self.option, &self.value) == (&other.option, &other.value)
    }
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Which line is no option, or why the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, CommandError> {
        // Standard input cannot be read again at SIGHUP.
        let name = path.to_str().filter(|name| *name != "-");
        let name =
            name.ok_or_else(|| CommandError::usage(format!("{CONFIG}: the name of a file")))?;
        // To open a pipe would wait for its writer.
        if path.metadata().is_ok_and(|facts| !facts.is_file()) {
            return Err(CommandError::usage(format!("{CONFIG}: {name}: no regular file")));
        }
        let text = named(CONFIG, read_text(name, "file of options"))?;
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let line = |(line, number): (&str, usize)| {
            ConfigLine::read(number, line)
                .map_err(|why| CommandError::usage(format!("{}:{number}: {why}", path.display())))
        };
        let lines = lines.map(line).collect::<Result<_, _>>()?;
        Ok(Self { path: path.to_owned(), lines })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts file and line in front of an error that names one of the options.
    pub(crate) fn located(&self, error: &str) -> String {
        let words = error.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let line = words.filter(|word| word.starts_with('-')).find_map(|word| self.line(word));
        match line {
            Some(ConfigLine { number, .. }) => format!("{}:{number}: {error}", self.path.display()),
            None => error.to_owned(),
        }
    }

    fn line(&self, option: &str) -> Option<&ConfigLine> {
        self.lines.iter().find(|line| line.option == option)
    }

    /// Refuses a newer file in which other options than `changeable` ones have changed.
    ///
    /// # Errors
    /// The first such line.
    pub(crate) fn check_changes(
        &self,
        newer: &Self,
        changeable: &[&str],
    ) -> Result<(), CommandError> {
        let missing = |one: &'_ Self, other: &Self| {
            let lines =
                one.lines.iter().filter(|line| !other.lines.iter().any(|known| known.is(line)));
            lines.cloned().collect::<Vec<_>>()
        };
        let changed = missing(newer, self).into_iter().chain(missing(self, newer));
        let mut fixed = changed.filter(|line| !changeable.contains(&line.option.as_str()));
        match fixed.next() {
            None => Ok(()),
            Some(ConfigLine { number, option, .. }) => Err(CommandError::usage(format!(
                "{}:{number}: {option}: only a restart changes it",
                self.path.display()
            ))),
        }
    }
}

/// The option that names the file.
const CONFIG: &str = "--config";

/// Adds the options of the file that `cellpace proxy --config FILE` names.
///
/// # Errors
/// As [`ConfigFile::read`].
pub(crate) fn with_config(
    mut args: Vec<OsString>,
) -> Result<(Vec<OsString>, Option<ConfigFile>), CommandError> {
    if args.get(1).is_none_or(|command| command != "proxy") {
        return Ok((args, None));
    }
    let Some((at, path)) = named_file(&args) else { return Ok((args, None)) };
    let file = ConfigFile::read(&path)?;
    args.splice(at..at, file.lines.iter().map(ConfigLine::arg));
    Ok((args, Some(file)))
}

/// The file, and where the next argument is.
fn named_file(args: &[OsString]) -> Option<(usize, PathBuf)> {
    let joined =
        |arg: &OsString| Some(arg.to_str()?.strip_prefix(CONFIG)?.strip_prefix('=')?.into());
    args.iter().enumerate().find_map(|(at, arg)| match arg == CONFIG {
        true => Some((at + 2, args.get(at + 1)?.into())),
        false => joined(arg).map(|path| (at + 1, path)),
    })
}

/// An error with the line that names the option, where there is a file.
pub(crate) fn located(error: CommandError, file: Option<&ConfigFile>) -> CommandError {
    match (error, file) {
        (CommandError::Usage(text), Some(file)) => CommandError::Usage(file.located(&text)),
        (error, _) => error,
    }
}

/// What clap says, without its advice, on one line.
pub(crate) fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<&str> =
        text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy.conf");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn read(text: &str) -> Result<ConfigFile, CommandError> {
        let (_folder, path) = written(text);
        ConfigFile::read(&path)
    }

    #[test]
    fn lines_are_options_as_on_the_command_line() {
        let (_folder, path) =
            written("# mine\n\n--listen 80\n--to=a:1\n  --socks5  \n-v\n--cc pace:r = 2\n");
        let given = ["cellpace", "proxy", "--config", path.to_str().unwrap(), "-q"];
        let (args, _) = with_config(given.map(OsString::from).to_vec()).unwrap();
        let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
        let read = ["--listen=80", "--to=a:1", "--socks5", "-v", "--cc=pace:r = 2"];
        assert_eq!(args, [&given[..4], &read, &given[4..]].concat());
        let other = ["cellpace", "run", "--config", "nowhere"].map(OsString::from).to_vec();
        assert_eq!(with_config(other.clone()).unwrap(), (other, None));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, said) in [
            ("--cc pace\ncc pace\n", "proxy.conf:2: write an option"),
            ("--\n", "proxy.conf:1: write an option"),
            ("--config x\n", "proxy.conf:1: --config is for"),
            ("--cc pace\n--help\n", "proxy.conf:2: --help is for"),
            (&"x".repeat(2 << 20), "no file of options"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = ConfigFile::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        let file = read("--listen 80\n--cc pase\n").unwrap();
        assert!(file.located("--cc: there is no controller").contains("proxy.conf:2: --cc: there"));
        assert_eq!(file.located("--idle: too long"), "--idle: too long");
    }

    #[test]
    fn only_some_options_may_change() {
        let file = read("--listen 80\n--cc pace\n").unwrap();
        let change = |text| file.check_changes(&read(text).unwrap(), &["--cc", "--idle"]);
        change("--idle 9s\n# new\n--cc copa\n--listen 80\n").unwrap();
        for text in ["--cc pace\n", "--cc pace\n--listen 81\n"] {
            let error = change(text).unwrap_err().to_string();
            assert!(error.contains("--listen: only a restart"), "{error}");
        }
    }
}
