//! Checks to verdicts.

use crate::Verdict;
use crate::check::CheckResult;
use crate::claim::{Claim, ClaimRun, Level, Setup};

/// The verdict of these checks of a claim.
pub(crate) fn verdict_of(claim: &Claim, checks: &[CheckResult]) -> Verdict {
    let decides = deciding(claim, checks);
    let (deciding, others): (Vec<_>, Vec<_>) =
        checks.iter().partition(|check| decides(&claim.runs[&check.run]));
    let failed = |checks: &[&CheckResult], level: Level| {
        checks.iter().filter(|check| check.level == level && !check.passed).count()
    };
    if failed(&deciding, Level::Core) == 0 {
        return if failed(&deciding, Level::Full) == 0 {
            Verdict::Reproduced
        } else {
            Verdict::InPart
        };
    }
    let is_beyond_noise =
        deciding.iter().any(|check| check.level == Level::Core && !check.passed && !check.is_noise);
    let is_inferred = |check: &&&CheckResult| claim.runs[&check.run].setup == Setup::Inferred;
    let inferred: Vec<&CheckResult> = others.iter().filter(is_inferred).copied().collect();
    let holds_elsewhere = inferred.iter().any(|check| check.level == Level::Core)
        && failed(&inferred, Level::Core) == 0;
    if is_beyond_noise && !holds_elsewhere { Verdict::Refuted } else { Verdict::InPart }
}

/// Which runs decide: inferred ones that say so, else the printed ones, else all.
fn deciding<'a>(claim: &'a Claim, checks: &[CheckResult]) -> impl Fn(&ClaimRun) -> bool + use<'a> {
    let any =
        |wanted: fn(&ClaimRun) -> bool| checks.iter().any(|check| wanted(&claim.runs[&check.run]));
    let says_so = any(|run| run.decides);
    let is_printed = any(|run| run.setup == Setup::Printed);
    move |run| match () {
        () if says_so => run.decides,
        () if is_printed => run.setup == Setup::Printed,
        () => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(runs: &str) -> Claim {
        let head = "id = \"a-b\"\nwhere = \"\"\nsays = \"\"\nkind = \"text\"\nmode = \"virtual\"\n\
                    expected = \"open\"\nbecause = \"made up\"\n";
        let run = |name: &str| {
            format!("[run.{name}]\ntrace = \"a\"\ncc = \"cubic\"\nsetup = \"{name}\"\n")
        };
        let runs: String = runs
            .split(' ')
            .map(|name| match name.split_once('!') {
                Some((name, _)) => run(name) + "evidence = \"made up\"\ndecides = true\n",
                None if name == "inferred" => run(name) + "evidence = \"made up\"\n",
                None => run(name),
            })
            .collect();
        Claim::read("a/b", &(head.to_owned() + &runs)).unwrap()
    }

    /// Checks written as `printed core pass`, with `~` for noise.
    fn verdict(runs: &str, checks: &[&str]) -> Verdict {
        let claim = claim(runs);
        let check = |text: &&str| {
            let words: Vec<&str> = text.split(' ').collect();
            CheckResult {
                name: String::new(),
                level: if words[1] == "core" { Level::Core } else { Level::Full },
                run: words[0].to_owned(),
                setup: claim.runs[words[0]].setup,
                passed: words[2] == "pass",
                is_noise: words.contains(&"~"),
                value: String::new(),
                bound: String::new(),
                place: String::new(),
            }
        };
        verdict_of(&claim, &checks.iter().map(check).collect::<Vec<_>>())
    }

    #[test]
    fn claims_a2_verdicts_follow_the_levels() {
        let of = |checks: &[&str]| verdict("printed", checks);
        assert_eq!(of(&["printed core pass", "printed full pass"]), Verdict::Reproduced);
        assert_eq!(of(&["printed core pass", "printed full fail"]), Verdict::InPart);
        assert_eq!(of(&["printed core fail", "printed full pass"]), Verdict::Refuted);
        assert_eq!(of(&["printed core fail ~", "printed core fail ~"]), Verdict::InPart);
        assert_eq!(of(&["printed core fail ~", "printed core fail"]), Verdict::Refuted);
    }

    #[test]
    fn claims_a2_the_printed_set_up_decides_unless_an_inferred_one_says_so() {
        let both = ["printed core fail", "inferred core pass"];
        assert_eq!(verdict("printed inferred", &both), Verdict::InPart);
        assert_eq!(verdict("printed inferred!", &both), Verdict::Reproduced);
        let both = ["printed core fail", "ours core pass"];
        assert_eq!(verdict("printed ours", &both), Verdict::Refuted);
        assert_eq!(verdict("ours", &["ours core pass"]), Verdict::Reproduced);
        let both = ["printed core pass", "inferred core fail"];
        assert_eq!(verdict("printed inferred", &both), Verdict::Reproduced);
    }
}
