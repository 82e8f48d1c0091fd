//! What `cellpace kernel status` says of a Markov table in the kernel.

use cellpace_kernel::KernelError;
use cellpace_kernel::table::{self, InstalledTable};
use serde_json::{Value, json};

use super::mdi::ours;

/// What was found under a name.
pub(super) struct TableStatus {
    name: String,
    table: Result<Option<InstalledTable>, KernelError>,
}

impl TableStatus {
    /// Under the name that goes with this one of the kernel driver.
    pub(super) fn look(driver: &str) -> Self {
        let name = ours(driver).to_owned();
        Self { table: table::installed(&name), name }
    }

    /// Lines of the text; few where there is nothing.
    pub(super) fn rows(&self) -> String {
        let rows = match &self.table {
            Ok(Some(table)) => rows(table),
            Ok(None) => vec![("table installed", "no".to_owned())],
            Err(error) => vec![("table installed", unseen(error))],
        };
        rows.iter().map(|(name, value)| format!("{name:<27}{value}\n")).collect()
    }

    /// The document of the status, and what is known of the table.
    pub(super) fn add_to(&self, mut status: Value) -> Value {
        status["table"] = match &self.table {
            Ok(table) => table.as_ref().map(document).into(),
            // Of the rest we know nothing.
            Err(error) => json!({ "name": self.name, "error": unseen(error) }),
        };
        status
    }
}

/// That root alone may look is no fault of the table, whose pin may well be there.
fn unseen(error: &KernelError) -> String {
    match error {
        KernelError::Unseen(name) => format!("`{name}` is registered; root sees more"),
        error => error.to_string(),
    }
}

fn rows(table: &InstalledTable) -> Vec<(&'static str, String)> {
    let InstalledTable { name, kind, states, sockets, .. } = table;
    let slow = if table.slow_start { ", after a slow start" } else { "" };
    let who = if table.everyone { "everyone" } else { "root" };
    let seed = match table.seed {
        0 => "random".to_owned(),
        seed => seed.to_string(),
    };
    let memory = table.memory.map_or("unknown".to_owned(), |bytes| {
        format!("{:.1} MB, and 1.2 kB for each socket", bytes as f64 / 1e6)
    });
    let mut rows = vec![
        ("table installed", format!("`{name}`, to be selected by {who}")),
        ("table of", of(table)),
        ("table SHA-256", hash(table).unwrap_or_else(|| "unknown".to_owned())),
        ("table states", format!("{states}, {kind}{slow}; seed {seed}")),
        ("table memory", memory),
        ("table sockets", sockets.to_string()),
    ];
    if !table.pinned {
        let gone = "its pin is gone: `cellpace kernel remove --cc mdi` removes it";
        rows.push(("table note", gone.to_owned()));
    }
    rows
}

fn of(table: &InstalledTable) -> String {
    let known = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
    let teacher = known(&table.origin.teacher).unwrap_or_else(|| "unknown teacher".to_owned());
    match known(&table.origin.controller) {
        Some(controller) => format!("{teacher}, installed as `{controller}`"),
        None => teacher,
    }
}

/// `None`: not known.
fn hash(table: &InstalledTable) -> Option<String> {
    let bytes = table.origin.sha256;
    (bytes != [0; 32]).then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn document(table: &InstalledTable) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": table.name,
        "teacher": text(&table.origin.teacher),
        "controller": text(&table.origin.controller),
        "sha256": hash(table),
        "kind": table.kind,
        "states": table.states,
        "memory_bytes": table.memory,
        "sockets": table.sockets,
        "everyone": table.everyone,
        "slow_start": table.slow_start,
        "seed": (table.seed != 0).then_some(table.seed),
        "pinned": table.pinned,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_kernel::table::TableOrigin;

    fn table() -> InstalledTable {
        InstalledTable {
            name: "cellpace_mdi".to_owned(),
            origin: TableOrigin {
                teacher: "verus:r=2".to_owned(),
                controller: "mdi:model=x".to_owned(),
                sha256: [0xa5; 32],
            },
            kind: "levels",
            states: 1234,
            memory: Some(4_800_000),
            sockets: 3,
            everyone: false,
            slow_start: true,
            seed: 7,
            pinned: true,
        }
    }

    fn found(table: Result<Option<InstalledTable>, KernelError>) -> TableStatus {
        TableStatus { name: "cellpace_mdi".to_owned(), table }
    }

    #[test]
    fn a_table_is_shown_with_its_teacher_and_its_use() {
        let found = found(Ok(Some(table())));
        let text = found.rows();
        for part in ["`cellpace_mdi`", "verus:r=2", "mdi:model=x", "a5a5", "1234, levels", "4.8 MB"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("seed 7") && !text.contains("pin is gone"), "{text}");
        let status = found.add_to(json!({ "uses": "gate" }));
        assert_eq!((&status["uses"], &status["table"]["sockets"]), (&json!("gate"), &json!(3)));
        assert_eq!(status["table"]["pinned"], true);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let origin = TableOrigin::default();
        let bare = InstalledTable { origin, seed: 0, memory: None, pinned: false, ..table() };
        let found_bare = found(Ok(Some(bare)));
        let text = found_bare.rows();
        assert!(text.contains("unknown teacher") && text.contains("seed random"), "{text}");
        assert!(text.contains("`cellpace kernel remove --cc mdi` removes it"), "{text}");
        let document = &found_bare.add_to(json!({}))["table"];
        for field in ["teacher", "controller", "sha256", "seed", "memory_bytes"] {
            assert_eq!(document[field], Value::Null, "{field}");
        }
        assert_eq!(found(Ok(None)).add_to(json!({}))["table"], Value::Null);
        let unseen = found(Err(KernelError::Unseen("cellpace_mdi".to_owned())));
        assert!(unseen.rows().contains("root sees"), "{}", unseen.rows());
        assert_eq!(unseen.add_to(json!({}))["table"]["name"], "cellpace_mdi");
    }
}
