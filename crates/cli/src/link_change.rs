//! `cellpace link --set`: what can be changed in a running link, and how it is written.

use std::path::Path;
use std::process::ExitCode;

use cellpace_base::nearest;
use cellpace_lab::open_file;
use cellpace_lab::trace::read_trace;
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{DuplexSpec, PATH_FIELDS, PathField};

use crate::error::CommandError;

/// Has the running link take settings such as `rate=5mbit`, all or none.
pub(crate) fn change_running_link(settings: &[String]) -> Result<ExitCode, CommandError> {
    let folder = std::env::current_dir().map_err(CommandError::failed)?;
    let lines = [folder.to_string_lossy().into_owned()].into_iter().chain(settings.iter().cloned());
    let lines: Vec<String> = lines.collect();
    if lines.iter().any(|line| line.contains('\n')) {
        return Err(CommandError::usage("--set: a line end in a setting or in the folder's name"));
    }
    let request = lines.join("\n");
    // What does not read is wrong usage, and the link need not be asked.
    read_change(&request, &mut DuplexSpec::default()).map_err(CommandError::usage)?;
    cellpace_emu::change_running(&request).map_err(CommandError::failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a request: the folder in which files are looked for, then a setting a line. Changes the
/// link and returns the settings.
pub(crate) fn read_change(request: &str, link: &mut DuplexSpec) -> Result<Vec<String>, String> {
    let mut lines = request.lines();
    let folder = Path::new(lines.next().unwrap_or_default());
    let open = |name: &str| open_file(&folder.join(name).to_string_lossy());
    let mut files = TraceFiles::new(open).read_by(read_trace);
    let settings: Vec<String> = lines.map(str::to_owned).collect();
    for setting in &settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(format!("--set: `{setting}` needs a value; write it as rate=5mbit"));
        };
        set(key.trim(), value.trim(), link, &mut files)
            .map_err(|why| format!("--set {key}: {why}"))?;
    }
    Ok(settings)
}

fn set(
    key: &str,
    value: &str,
    link: &mut DuplexSpec,
    files: &mut TraceFiles<'_>,
) -> Result<(), String> {
    if key == "rate" {
        return set("trace", &format!("constant:{value}"), link, files);
    }
    let Some(field) = fields().find(|field| field.option() == key) else {
        let keys: Vec<String> = fields().map(PathField::option).collect();
        let keys = || ["rate"].into_iter().chain(keys.iter().map(String::as_str));
        let near = nearest(key, keys()).map(|near| format!("; did you mean `{near}`?"));
        let all = || format!("; there are {}", keys().collect::<Vec<_>>().join(", "));
        return Err(format!("a link has no such setting{}", near.unwrap_or_else(all)));
    };
    field.read(link, value, files).map_err(|error| error.why)
}

/// What can be changed, under the names of the options; and `rate`.
fn fields() -> impl Iterator<Item = &'static PathField> {
    PATH_FIELDS.iter().filter(|field| field.can_change)
}

#[cfg(test)]
mod tests {
    use cellpace_path::PathSpec;

    use super::*;

    fn read(settings: &str) -> Result<[PathSpec; 2], String> {
        let mut link = DuplexSpec::default();
        read_change(&format!("/\n{settings}"), &mut link)?;
        Ok([link.down, link.up])
    }

    #[test]
    fn settings_change_what_they_name() {
        let all = "rate=5mbit\nrtt=80ms\nqueue=codel\nloss=1%\nuplink=constant:1mbit\n\
                   uplink-queue=pie\nuplink-loss=2%\nimpair=duplicate=1%\nimpair=up:corrupt=3%";
        let [down, up] = read(all).unwrap();
        let trace = |path: &PathSpec| path.trace.as_ref().unwrap().to_string();
        assert_eq!([trace(&down), trace(&up)], ["constant:5mbit", "constant:1mbit"]);
        assert_eq!([&down, &up].map(|path| path.delay.to_string()), ["40ms", "40ms"]);
        assert_eq!([&down, &up].map(|path| path.queue.to_string()), ["codel", "pie"]);
        assert_eq!([&down, &up].map(|path| path.loss.to_string()), ["1%", "2%"]);
        let impair = [&down, &up].map(|path| path.impair.to_string());
        assert_eq!(impair, ["duplicate=1%", "corrupt=3%"]);
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (setting, part) in [
            ("rate", "`rate` needs a value; write it as rate=5mbit"),
            ("rate=5", "--set rate: constant: `5` needs a unit"),
            ("rat=5mbit", "--set rat: a link has no such setting; did you mean `rate`?"),
            ("seed=5", "there are rate, trace"),
            ("trace=gone", "there is no trace file `gone`"),
            ("loss=0.05", "write 5%"),
            ("rtt=-40ms", "a delay is not negative"),
            ("queue=droptail:1B", "smaller than one"),
        ] {
            let error = read(setting).unwrap_err();
            assert!(error.contains(part), "{setting}: {error}");
        }
    }
}
