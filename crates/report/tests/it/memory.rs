//! Results are read in memory that their length bounds, whatever they hold.

use cellpace_report::{Document, csv, page};

/// Bytes that reading a text and making its page and table take at most, for each byte of the text.
fn ratio(text: &str) -> f64 {
    let taken = allocation_counter::measure(|| {
        let Ok(document) = Document::read("a.json", text) else { return };
        let documents = [document];
        let made = (page(&documents).is_ok(), csv(&documents).is_ok());
        std::hint::black_box(made);
    });
    taken.bytes_max as f64 / text.len() as f64
}

/// `part` over and over between `begin` and `end`, four megabytes together.
fn long(begin: &str, part: &str, end: &str) -> String {
    let parts = vec![part; (4 << 20) / part.len()];
    format!("{begin}{}{end}", parts.join(","))
}

#[test]
fn no_text_takes_many_times_its_length() {
    let sparse = r#"{"a":1,"b":2,"c":"dddddddd"}"#;
    let compare = r#"{"schema":"cellpace.compare/1","runs":["#;
    for (name, text) in [
        ("objects that are no results", r#"{"a":1}"#.repeat(1 << 19)),
        (
            "small objects in a field that nobody reads",
            long(r#"{"schema":"cellpace.compare/1","x":["#, r#"{"a":1}"#, "]}"),
        ),
        ("larger ones", long(r#"{"schema":"cellpace.compare/1","x":["#, sparse, "]}")),
        ("small runs", long(compare, r#"{"a":1}"#, "]}")),
        ("a run with many fields", long(&format!("{compare}{{\"x\":["), sparse, "]}]}")),
        ("numbers", long(&format!("{compare}{{\"x\":["), "1", "]}]}")),
        ("small arrays", long(&format!("{compare}{{\"x\":["), "[1]", "]}]}")),
    ] {
        let ratio = ratio(&text);
        println!("{name}: {ratio:.1} times {} MB", text.len() >> 20);
        assert!(ratio < 30.0, "{name}: {ratio:.1} times its length");
    }
}
