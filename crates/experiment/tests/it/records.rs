//! Records, written and read.

use cellpace_experiment::{
    ConnectionRecord, ExperimentEntry, ExperimentLine, ExperimentRecords, Figure, GuardLook,
    SlotRecord,
};

use crate::experiment;

fn lines() -> Vec<ExperimentLine> {
    let experiment = experiment("", "");
    let connection = ConnectionRecord {
        arm: "pace".to_owned(),
        slot: 7,
        client: "c".to_owned(),
        outcome: "finished".to_owned(),
        goodput_mbps: Some(1.25),
        tcp_sent_bytes: 1000,
        retransmitted_bytes: 10,
        ..ConnectionRecord::default()
    };
    let look = GuardLook {
        at_s: 1.0,
        figure: "errors".to_owned(),
        arm: "pace".to_owned(),
        units: 9,
        worse: 3.0,
        at_least: None,
        limit: 1.0,
        fired: false,
    };
    let slot = SlotRecord { slot: 7, arm: "pace".to_owned(), processor_s: 0.5 };
    vec![
        ExperimentLine::start(&experiment),
        ExperimentLine::of(&experiment, ExperimentEntry::Connection(connection)),
        ExperimentLine::of(&experiment, ExperimentEntry::Guard(look)),
        ExperimentLine::of(&experiment, ExperimentEntry::Slot(slot)),
    ]
}

#[test]
fn what_is_written_is_read() {
    let text: String = lines().iter().map(ExperimentLine::to_json).collect();
    assert_eq!(text.lines().count(), 4);
    let read = ExperimentRecords::read(&text).unwrap();
    assert_eq!(read, ExperimentRecords::of(lines()).unwrap());
    assert_eq!((read.connections.len(), read.looks.len(), read.slots.len()), (1, 1, 1));
    assert_eq!(read.connections[0].part(Figure::Retransmitted), Some((10.0, 1000.0)));
    assert_eq!(read.connections[0].part(Figure::Errors), Some((0.0, 1.0)));
    assert_eq!(read.connections[0].part(Figure::RttP50), None);
    assert_eq!(ExperimentRecords::read(&text.repeat(2)).unwrap().connections.len(), 2);
}

#[test]
fn errors_name_the_line() {
    let text: Vec<String> = lines().iter().map(ExperimentLine::to_json).collect();
    let cases = [
        (format!("{}\nnonsense\n", text[0]), "line 3: ", "expected"),
        (text[1].clone(), "line 1: ", "no line before names an arm `pace`"),
        (
            format!("{}{}", text[0], text[1].replace("\"bbr\"", "\"x\"")),
            "line 2: ",
            "experiment `x`",
        ),
        (format!("{}{}", text[0], text[1].replace("t/1", "t/2")), "line 2: ", "schema"),
        (format!("{}{}", text[0], text[0].replace("600.0", "60.0")), "line 2: ", "another name"),
        (format!("{}{}", text[0], &text[1][..40]), "line 2: ", "EOF"),
        (format!("{}\"{}\"", text[0], "x".repeat(70_000)), "line 2: ", "longer than"),
        (text[2].clone(), "line 1: ", "no line says"),
        (String::new(), "line 1: ", "no line says"),
    ];
    for (text, place, part) in cases {
        let error = ExperimentRecords::read(&text).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(part), "{text:.200}\n{error}");
    }
}
