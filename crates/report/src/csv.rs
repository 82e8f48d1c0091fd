//! The figures of results as CSV, for spreadsheets and scripts.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{Document, ReportError};

/// Arrays whose elements get a row each, and what one of them is called. Other arrays (series over time,
/// distributions) are left out.
const ROWS: [(&str, &str); 5] = [
    ("runs", "run"),
    ("per_flow", "flow"),
    ("flows", "flow"),
    ("claims", "claim"),
    ("checks", "check"),
];

/// The figures of documents as CSV: one row for each run, and for each flow of a run or connection. The
/// first column is the document's name; the others are named as the JSON's fields, with `_` between
/// levels. Fields of a flow stand under `per_flow_` or `flows_`; `run` and `flow` are their numbers, from 0. What a
/// document does not have is empty.
///
/// # Errors
/// When a document would have more than a million rows.
pub fn csv(documents: &[Document]) -> Result<String, ReportError> {
    let mut table = CsvTable::default();
    for document in documents {
        for object in &document.figures(&ROWS.map(|(array, _)| array))? {
            let mut row = CsvRow::default();
            table.add(&mut row, "file", Value::String(document.name.clone()));
            let rows = table.rows_of(object, "", row);
            table.rows.extend(rows);
        }
    }
    Ok(table.text())
}

/// Values by the place of their columns.
#[derive(Clone, Default)]
struct CsvRow(Vec<(usize, Value)>);

#[derive(Default)]
struct CsvTable {
    columns: Vec<String>,
    places: HashMap<String, usize>,
    rows: Vec<CsvRow>,
}

impl CsvTable {
    fn add(&mut self, row: &mut CsvRow, column: &str, value: Value) {
        let place = *self.places.entry(column.to_owned()).or_insert_with(|| {
            self.columns.push(column.to_owned());
            self.columns.len() - 1
        });
        row.0.push((place, value));
    }

    /// The rows of an object: one, unless it has arrays that get rows.
    fn rows_of(&mut self, object: &Value, prefix: &str, mut row: CsvRow) -> Vec<CsvRow> {
        let mut arrays = Vec::new();
        self.scalars(object, prefix, &mut row, &mut arrays);
        let mut rows = Vec::new();
        for (array, element, items) in arrays {
            // The figures of runs are what most documents are about.
            let prefix = if array == "runs" { String::new() } else { format!("{array}_") };
            for (number, item) in items.iter().enumerate() {
                let mut row = row.clone();
                self.add(&mut row, element, number.into());
                rows.extend(self.rows_of(item, &prefix, row));
            }
        }
        if rows.is_empty() { vec![row] } else { rows }
    }

    /// Adds the single values of an object to `row`, and finds the arrays that get rows.
    fn scalars<'a>(
        &mut self,
        object: &'a Value,
        prefix: &str,
        row: &mut CsvRow,
        arrays: &mut Vec<(&'static str, &'static str, &'a Vec<Value>)>,
    ) {
        for (key, value) in object.as_object().into_iter().flatten() {
            let name = format!("{prefix}{key}");
            let of_rows = ROWS.iter().find(|(array, _)| array == key);
            match (value, of_rows) {
                (Value::Object(_), _) => self.scalars(value, &format!("{name}_"), row, arrays),
                (Value::Array(items), Some((array, element))) => {
                    arrays.push((array, element, items));
                }
                (Value::Array(_), None) => {}
                (value, _) => self.add(row, &name, value.clone()),
            }
        }
    }

    fn text(&self) -> String {
        // Columns of which nothing is known say nothing.
        let known = |(place, value): &(usize, Value)| (!value.is_null()).then_some(*place);
        let used: HashSet<usize> =
            self.rows.iter().flat_map(|row| row.0.iter().filter_map(known)).collect();
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|place| used.contains(place)).collect();
        let header = shown.iter().map(|place| field(&self.columns[*place]));
        let mut text = line(header);
        for row in &self.rows {
            let mut cells = vec![String::new(); self.columns.len()];
            for (place, value) in &row.0 {
                cells[*place] = cell(value);
            }
            text += &line(shown.iter().map(|place| std::mem::take(&mut cells[*place])));
        }
        text
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<_>>().join(",") + "\n"
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => field(text),
        other => other.to_string(),
    }
}

/// Returns a field as RFC 4180 has it: quoted where it must be. What a spreadsheet would run as a formula
/// gets an apostrophe in front, which has it read as text.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    if is_formula && text.parse::<f64>().is_err() {
        return format!("\"'{}\"", text.replace('"', "\"\""));
    }
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str, text: &str) -> Document {
        Document::read(name, text).unwrap()
    }

    #[test]
    fn no_text_is_a_formula() {
        let runs = r#"{"schema": "x/1", "runs": [{"cc": "=cmd|' calc'!A1", "trace": "@SUM(\"a\")", "=x": "-5"},
            {"cc": "+1", "trace": "-a", "=x": "\tb"}], "loss": -1.5}"#;
        assert_eq!(
            csv(&[document("-e.json", runs)]).unwrap(),
            "file,loss,schema,run,\"'=x\",cc,trace\n\
             \"'-e.json\",-1.5,x/1,0,-5,\"'=cmd|' calc'!A1\",\"'@SUM(\"\"a\"\")\"\n\
             \"'-e.json\",-1.5,x/1,1,\"'\tb\",+1,\"'-a\"\n"
        );
    }

    #[test]
    fn a_row_for_each_run_and_flow_and_columns_named_as_fields() {
        let shared = r#"{"schema": "x/1", "runs": [
            {"cc": "a,b", "delay": {"p50": 1.5, "p95": null}, "series": [1, 2],
             "per_flow": [{"cc": "a", "lost": 0}, {"cc": "b", "lost": 2}]},
            {"cc": "\"c\"", "delay": {"p50": 2, "p95": 3}, "per_flow": []}]}"#;
        let lines =
            r#"{"schema": "y/1", "flow": 0, "cc": "d"} {"schema": "y/1", "flow": 1, "none": null}"#;
        let csv = csv(&[document("a.json", shared), document("b.jsonl", lines)]).unwrap();
        assert_eq!(
            csv,
            "file,schema,run,cc,delay_p50,delay_p95,flow,per_flow_cc,per_flow_lost\n\
             a.json,x/1,0,\"a,b\",1.5,,0,a,0\n\
             a.json,x/1,0,\"a,b\",1.5,,1,b,2\n\
             a.json,x/1,1,\"\"\"c\"\"\",2,3,,,\n\
             b.jsonl,y/1,,d,,,0,,\n\
             b.jsonl,y/1,,,,,1,,\n"
        );
    }
}
