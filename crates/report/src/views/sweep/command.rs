//! The command line that does runs of a sweep again.

use std::fmt::Write;

use cellpace_base::shell_quoted;
use cellpace_path::PathField;

use super::run::SweptRun;
use crate::joined::distinct;

/// The command line that does these runs again, which differ in nothing but controller and seed; empty where they do not say
/// all of it.
pub(super) fn command(runs: &[&SweptRun]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let has = |name: &str| first.plan().any(|(field, _)| field == name);
    // `compare` has no trace in place of a path's own.
    if has("trace") == has("path") {
        return String::new();
    }
    let ccs = distinct(runs.iter().map(|run| run.cc.clone()));
    let ccs = ccs.into_iter().map(|cc| ("cc".to_owned(), cc));
    let mut line = "cellpace compare".to_owned();
    for (option, value) in options(first).into_iter().chain(ccs) {
        let _ = write!(line, " --{option} {}", shell_quoted(&value));
    }
    // Such a sign would do something where the line is pasted.
    if line.chars().any(char::is_control) {
        return String::new();
    }
    with_seeds(line, runs.iter().filter_map(|run| run.seed).collect())
}

/// The fields of the plan as options, those of a path first.
fn options(run: &SweptRun) -> Vec<(String, String)> {
    let mut fields: Vec<(&str, &str)> = run.plan().collect();
    fields.sort_by_key(|(name, _)| SweptRun::field_place(name));
    let mut options = Vec::new();
    for (name, value) in fields {
        match PathField::find(name) {
            Some(field) if field.is_repeatable => {
                let each = value.split(PathField::SEVERAL);
                options.extend(each.map(|one| (field.option(), one.to_owned())));
            }
            // It has no option of its own.
            _ if name == "uplink_impair" => {
                options.push(("impair".to_owned(), format!("up:{value}")));
            }
            _ => options.push((name.replace('_', "-"), value.to_owned())),
        }
    }
    options
}

/// The line for each of the seeds.
fn with_seeds(line: String, mut seeds: Vec<u64>) -> String {
    seeds.sort_unstable();
    seeds.dedup();
    let (Some(first), Some(last)) = (seeds.first(), seeds.last()) else { return line };
    match seeds.len() as u64 {
        1 => format!("{line} --seed {first}"),
        count if last - first == count - 1 => format!("{line} --seed {first} --repeat {count}"),
        _ => {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            format!("for seed in {}; do {line} --seed $seed; done", seeds.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cc: &str, seed: u64, plan: &[(&str, &str)]) -> SweptRun {
        let mut row =
            serde_json::json!({ "cc": cc, "trace": "shown", "seed": seed, "plan_loss": null });
        for (field, value) in plan {
            row[format!("plan_{field}")] = (*value).into();
        }
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_field_is_an_option_and_several_texts_are_several() {
        let plan = [
            ("duration", "3s"),
            ("handover", "1s; 2s/100ms"),
            ("queue", "droptail:2MB"),
            ("send_jitter", "0%"),
            ("trace", "my trace.down"),
            ("uplink_impair", "duplicate=1%"),
        ];
        assert_eq!(
            command(&[&run("verus:r=2", 7, &plan)]),
            "cellpace compare --trace 'my trace.down' --queue droptail:2MB --impair up:duplicate=1% --handover 1s \
             --handover 2s/100ms --duration 3s --send-jitter 0% --cc verus:r=2 --seed 7"
        );
    }

    #[test]
    fn controllers_and_seeds_of_one_condition_are_one_line() {
        let of = |runs: &[(&str, u64)]| {
            let runs: Vec<_> =
                runs.iter().map(|(cc, seed)| run(cc, *seed, &[("path", "p")])).collect();
            command(&runs.iter().collect::<Vec<_>>())
        };
        let line = "cellpace compare --path p --cc copa";
        assert_eq!(of(&[("copa", 3), ("bbr", 3)]), format!("{line} --cc bbr --seed 3"));
        assert_eq!(of(&[("copa", 4), ("copa", 3)]), format!("{line} --seed 3 --repeat 2"));
        let each = format!("for seed in 1 9; do {line} --seed $seed; done");
        assert_eq!(of(&[("copa", 1), ("copa", 9)]), each);
    }

    #[test]
    fn what_no_command_can_do_has_none() {
        assert_eq!(command(&[]), "");
        assert_eq!(command(&[&run("copa", 1, &[])]), "", "an older version wrote it");
        assert_eq!(command(&[&run("copa", 1, &[("trace", "a"), ("path", "b")])]), "");
        assert_eq!(command(&[&run("copa\u{3}", 1, &[("trace", "a")])]), "");
    }
}
