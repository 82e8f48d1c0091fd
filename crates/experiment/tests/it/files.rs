//! Files of experiments.

use cellpace_base::Span;
use cellpace_experiment::{AssignBy, Figure};

use crate::{experiment, read, text};

#[test]
fn what_is_left_out_has_a_default() {
    let read = experiment("", "");
    assert_eq!(
        (read.assign, read.slot, read.washout),
        (AssignBy::Time, Span::from_secs(600), Span::ZERO)
    );
    assert_eq!((read.share, read.seed), (1.0, 0));
    assert_eq!(read.arms[0].name, "plain");
    assert_eq!((read.arms[0].cc.as_deref(), read.arms[1].cc.as_deref()), (None, Some("pace")));
    assert!(read.guard.is_empty());
}

#[test]
fn all_fields_are_read_and_the_control_is_the_first_arm() {
    let read = experiment(
        "assign = \"client\"\nslot = \"5m\"\nwashout = \"20s\"\nshare = \"5%\"\nseed = 7\ncontrol = \"kernel\"",
        "[[arm]]\nname = \"kernel\"\ntcp = \"bbr\"\nweight = 0.5\n[guard]\nretransmitted = \"2 points worse\"\n\
         goodput_p50 = \"10 % worse\"\nerrors = \"1 point worse\"\n",
    );
    assert_eq!(read.assign, AssignBy::Client);
    assert_eq!((read.share, read.seed, read.washout), (0.05, 7, Span::from_secs(20)));
    let names: Vec<&str> = read.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["kernel", "plain", "pace"]);
    assert_eq!((read.arms[0].tcp.as_deref(), read.arms[0].weight), (Some("bbr"), 0.5));
    let limits: Vec<_> = read.guard.iter().map(|limit| (limit.figure, limit.worse)).collect();
    let expected =
        [(Figure::GoodputP50, 10.0), (Figure::Retransmitted, 2.0), (Figure::Errors, 1.0)];
    assert_eq!(limits, expected);
}

#[test]
fn errors_name_the_line_and_the_field() {
    let cases = [
        (text("share = \"150%\"", ""), "line 4: share: ", "100%"),
        (text("share = \"0%\"", ""), "line 4: share: ", "nothing"),
        (text("control = \"pase\"", ""), "line 4: control: ", "did you mean `pace`?"),
        (text("slot = \"10\"", ""), "line 4: slot: ", "unit"),
        (text("slot = \"1ms\"", ""), "line 4: slot: ", "1s to 24h"),
        (text("washout = \"10m\"", ""), "line 4: washout: ", "shorter than a slot"),
        (text("assign = \"coin\"", ""), "line 4: ", "unknown variant `coin`"),
        (text("", "[guard]\n"), "line 10: guard: ", "it has no figure"),
        (text("", "[guard]\nlatency = \"1 % worse\"\n"), "line 11: ", "unknown field `latency`"),
        (text("", "[guard]\nerrors = \"1 % worse\"\n"), "line 11: errors: ", "2 points worse"),
        (text("", "[guard]\nrtt_p50 = \"worse\"\n"), "line 11: rtt_p50: ", "10 % worse"),
        (
            text("", "[guard]\ngoodput_p50 = \"100 % worse\"\n"),
            "line 11: goodput_p50: ",
            "below 100",
        ),
        (
            text("", "[[arm]]\nname = \"x\"\ncc = \"verys\"\n"),
            "line 12: cc: ",
            "no controller `verys`",
        ),
        (text("", "[[arm]]\nname = \"pace\"\n"), "line 11: name: ", "another arm"),
        (text("", "[[arm]]\nname = \"x\"\nweight = 0.0\n"), "line 12: weight: ", "above 0"),
        (text("", "[[arm]]\nname = \"x\"\nweight = nan\n"), "line 12: weight: ", "above 0"),
        (
            text("", "[[arm]]\nname = \"x\"\ncc = \"copa\"\ntcp = \"bbr\"\n"),
            "line 13: tcp: ",
            "or one",
        ),
        (
            text("", "[[arm]]\nname = \"x\"\ntcp = \"a b\"\n"),
            "line 12: tcp: ",
            "congestion control",
        ),
        (
            "[experiment]\nname = \"x\"\nsecret = \"short\"\n".to_owned(),
            "line 1: arm: ",
            "two arms",
        ),
        ("\n[experiment]\nname = \"x\"\n".to_owned(), "line 2: ", "missing field `secret`"),
        ("[experiment\n".to_owned(), "line 1: ", ""),
    ];
    for (text, place, part) in cases {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(part), "{text}\n{error}");
    }
    let short = text("", "").replace("0123456789abcdef", "short");
    assert!(read(&short).unwrap_err().to_string().starts_with("line 3: secret: "));
    let huge = "#".repeat(1 << 20);
    assert!(read(&huge).unwrap_err().to_string().contains("no experiment"));
}

#[test]
fn a_secret_is_never_shown() {
    assert!(!format!("{:?}", experiment("", "")).contains("0123456789"));
}
