//! `cellpace paper`: what its commands print and how they end. The shortest claims are run.

use crate::program::Folder;

#[test]
fn the_list_has_every_claim_with_its_verdict() {
    let folder = Folder::new();
    let listed = folder.good("paper list");
    assert!(listed.contains("verus-table1") && listed.contains("verus-fig11a"), "{listed}");
    let open = folder.json("paper list --state refuted,open");
    let claims = open["claims"].as_array().unwrap();
    assert!(claims.iter().all(|claim| claim["verdict"] == "refuted" || claim["verdict"] == "open"));
    folder.refused("paper list verus-fig99", "did you mean");
    folder.refused("paper list --state maybe", "is no verdict");
}

#[test]
fn a_claim_is_shown_with_commands_checks_and_verdict() {
    let shown = Folder::new().good("paper show verus-sec2-bufferbloat");
    for part in ["Says: ", "cellpace compare --trace", "core: ", "Verdict: reproduced"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

/// Claims whose quick runs take a second or two.
const SHORT: &str = "verus-sec7-sproutcap verus-sec53-epoch verus-fig9 verus-fig5 verus-fig2";

#[test]
fn the_shortest_claims_have_the_verdicts_that_are_expected() {
    let folder = Folder::new();
    let run = folder.json(&format!("paper run --quick {SHORT}"));
    for claim in run["claims"].as_array().unwrap() {
        let is_generated = claim["on_generated_traces"] == true;
        assert!(is_generated || claim["verdict"] == claim["expected"], "{claim:#}");
    }
}

#[test]
fn another_verdict_than_expected_ends_with_3_and_bad_claims_with_2() {
    let folder = Folder::new();
    let claim = "id = \"p-c\"\nwhere = \"1\"\nsays = \"Nothing\"\nkind = \"text\"\nmode = \"virtual\"\n\
                 expected = \"reproduced\"\n[run.a]\ntrace = \"constant:12mbit\"\n\
                 cc = \"fixed:cwnd=20pkts\"\nduration = \"3s\"\n[[check]]\nname = \"full\"\n\
                 level = \"core\"\nrun = \"a\"\ntest = \"mean(utilization) > 0.9\"\n";
    std::fs::create_dir_all(folder.path("claims/p")).unwrap();
    folder.write("claims/p/c.toml", claim);
    let outcome = folder.run("paper run --claims claims");
    assert_eq!(outcome.code, Some(3), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("p-c: refuted  EXPECTED: reproduced"), "{}", outcome.stdout);
    folder.write("claims/p/c.toml", claim.replace("mean(", "mean(("));
    folder.refused("paper run --claims claims", "expected `)`");
    folder.write("claims/p/c.toml", format!("#{}\n{claim}", "x".repeat(1_000_000)));
    folder.refused("paper list --claims claims", "claims/p/c.toml: more than 1 MB");
    std::fs::remove_file(folder.path("claims/p/c.toml")).unwrap();
    folder.refused("paper run --claims claims", "claims: there is no claim");
}

#[test]
fn pages_are_written_for_the_paper_and_the_index() {
    let folder = Folder::new();
    let outcome = folder.run("paper page verus-sec7-sproutcap --quick -o pages");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for page in ["pages/index.html", "pages/verus.html"] {
        let page = String::from_utf8(folder.read(page)).unwrap();
        assert!(page.len() < 3_000_000 && page.contains("</html>"));
    }
}
