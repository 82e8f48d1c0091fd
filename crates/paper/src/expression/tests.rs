use std::sync::Arc;

use super::*;
use crate::unit::Unit;

/// Delays of two controllers on three traces, from two starts.
struct Example;

const VALUES: [(&str, &str, &str, f64); 10] = [
    ("cubic", "a", "0s", 1.0),
    ("cubic", "a", "9s", 3.0),
    ("cubic", "b", "0s", 5.0),
    ("cubic", "b", "9s", 7.0),
    ("cubic", "city-drive", "0s", 9.0),
    ("verus:r=2,epoch=5ms", "a", "0s", 0.1),
    ("verus:r=2,epoch=5ms", "a", "9s", 0.3),
    ("verus:r=2,epoch=5ms", "b", "0s", 0.2),
    ("verus:r=2,epoch=5ms", "b", "9s", 0.2),
    ("verus:r=2,epoch=5ms", "city-drive", "0s", 0.0),
];

impl Source for Example {
    fn field(&self, name: &str, _: Option<&str>) -> Result<Table, String> {
        let place = |text: &str| -> Arc<str> { text.into() };
        let row = |(cc, trace, start, value): (&str, &str, &str, f64)| {
            Row::new(vec![place(cc), place(trace), place(start)], value)
        };
        let kind = match name {
            "delay_ms" => Kind::Quantity(Unit::TIME),
            _ => return Err(format!("unknown field `{name}`")),
        };
        let axes = ["cc", "trace", "start"].map(place).to_vec();
        Ok(Table { kind, axes, rows: VALUES.into_iter().map(row).collect() })
    }
}

impl TypeSource for Example {
    fn field_type(&self, name: &str, _: Option<&str>) -> Result<Type, String> {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let axes = vec![
            ("cc".to_owned(), texts(&["cubic", "verus:r=2,epoch=5ms"])),
            ("trace".to_owned(), texts(&["a", "b", "city-drive"])),
            ("start".to_owned(), Vec::new()),
        ];
        let kind = self.field(name, None)?.kind;
        Ok(Type { kind, axes, labels: &[] })
    }
}

fn value(text: &str) -> Result<f64, String> {
    let expression = parse(text)?;
    let found = type_of(&expression, &Example)?;
    let table = evaluate(&expression, &Example)?;
    assert_eq!(found.kind, table.kind, "{text}");
    match table.rows.as_slice() {
        [row] => Ok(row.value),
        rows => Err(format!("{} values", rows.len())),
    }
}

#[test]
fn claims_a4_the_languages_own_examples() {
    assert_eq!(value("mean([1,2,3]) = 2"), Ok(1.0));
    assert_eq!(value("count([12, 9, 11] >= 10) = 2"), Ok(1.0));
    assert_eq!(value("spearman([1,2,3],[3,2,1]) = -1"), Ok(1.0));
    assert_eq!(value("10ms > 2mbit").unwrap_err(), "units do not fit: a time and a rate");
    assert!(value("mean(delay_ms[cc=vegas])").unwrap_err().contains("selects nothing"));
}

#[test]
fn arithmetic_has_its_order_and_units() {
    assert_eq!(value("2 + 3 * 4 - 6 / 2"), Ok(11.0));
    assert_eq!(value("-(2 - 5) = 3 and not 1 > 2 or 1 > 2"), Ok(1.0));
    assert_eq!(value("2 * 10ms = 20ms"), Ok(1.0));
    assert_eq!(value("1mbit * 8s / 1MB"), Ok(1.0));
    assert_eq!(value("90% < 0.91"), Ok(1.0));
    for (wrong, why) in [
        ("1 + 2ms", "units do not fit"),
        ("1 and 2", "neither true nor false"),
        ("(1 < 2) + 1", "no quantity"),
        ("3 furlongs", "expected an operator"),
        ("3furlongs", "no number with a unit"),
        ("mean(1, 2)", "takes 1 arguments"),
        ("meen([1])", "unknown function"),
        ("p(50%, [1, 2])", "p(50, x) is the median"),
        ("mean(delay_ms; flow)", "no axis `flow`"),
        ("mean(delay_ms[flow=1])", "there is no axis `flow`"),
        ("mean(delay)", "unknown field"),
        ("(1", "expected `)`"),
        ("", "expected a value"),
        ("count([1, 2])", "takes a comparison"),
    ] {
        let error = value(wrong).unwrap_err();
        assert!(error.contains(why), "{wrong}: {error}");
    }
    assert!(parse(&"(".repeat(10_000)).is_err());
    assert!(parse(&"-".repeat(10_000)).is_err());
}

#[test]
fn division_by_zero_is_no_value_and_fails_every_comparison() {
    for test in ["1 / 0 > 1", "1 / 0 < 1", "0 / 0 = 0", "1 / 0 != 1"] {
        assert_eq!(value(test), Ok(0.0), "{test}");
    }
}

#[test]
fn operands_are_aligned_by_the_axes_that_they_share() {
    // 10, 10, 25, 35 times, and a division by zero, which is no number.
    let ratio = "delay_ms[cc=cubic] / delay_ms[cc=verus:r=2,epoch=5ms]";
    assert_eq!(value(&format!("count({ratio} >= 20)")), Ok(2.0));
    assert_eq!(value(&format!("count(all({ratio} >= 9; start); trace) = 2")), Ok(1.0));
    assert_eq!(value("min(delay_ms[cc=cubic; trace=b; start=9s]) = 7s"), Ok(1.0));
    assert_eq!(value("max(mean(delay_ms; start)[cc=cubic]) = 9s"), Ok(1.0));
    assert_eq!(value("mean(delay_ms[trace=hspa; cc=cubic]) = 9s"), Ok(1.0), "a set of traces");
    assert_eq!(value("mean(delay_ms[trace=a|b; cc=cubic]) = 4s"), Ok(1.0));
    assert_eq!(value("mean(delay_ms[trace!=a|b; cc=cubic]) = 9s"), Ok(1.0));
    assert_eq!(value("max(delay_ms[start=0s..5s; trace!=city-drive]) = 5s"), Ok(1.0));
}

#[test]
fn what_decides_is_the_worst_of_all_and_the_best_of_any() {
    let margin = |text: &str| {
        let table = evaluate(&parse(text).unwrap(), &Example).unwrap();
        let margin = table.rows[0].margin.clone().unwrap();
        (margin.value, margin.bound, margin.place.join(" "))
    };
    let text = "all(delay_ms[cc=cubic] >= 2s)";
    assert_eq!(margin(text), (1.0, 2.0, "a 0s".to_owned()));
    assert_eq!(margin("all(delay_ms[cc=cubic] >= 0.5s)"), (1.0, 0.5, "a 0s".to_owned()));
    assert_eq!(margin("any(delay_ms[cc=cubic] >= 8s)"), (9.0, 8.0, "city-drive 0s".to_owned()));
    assert_eq!(margin("count(delay_ms[cc=cubic] >= 8s) >= 2"), (1.0, 2.0, String::new()));
}

#[test]
fn the_functions_have_the_usual_definitions() {
    for (test, expected) in [
        ("median([3, 1, 2])", 2.0),
        ("sd([2, 4, 6])", 2.0),
        ("p(50, [1, 2, 3])", 2.0),
        ("share([1, 2, 3, 4] >= 3)", 0.5),
        ("jain([1, 1, 1, 1])", 1.0),
        ("jain([1, 0])", 0.5),
        ("spearman([1, 2, 3, 4], [1, 9, 4, 16])", 0.8),
        ("sum([1, 2, 3])", 6.0),
        ("abs(1 - 3)", 2.0),
        ("sum(where([1, 2, 3], [1, 2, 3] >= 2))", 5.0),
        ("min([2, 1]) + max([2, 1])", 3.0),
    ] {
        assert!((value(test).unwrap() - expected).abs() < 1e-9, "{test}");
    }
    assert_eq!(value("overlap([1, 2, 3], [2, 3, 4])"), Ok(1.0));
    assert_eq!(value("overlap([1, 1.1, 1.2], [2, 2.1, 2.2])"), Ok(0.0));
    assert_eq!(value("any([1, 2] > 1) and not all([1, 2] > 1)"), Ok(1.0));
}

#[test]
fn a_chain_is_as_long_as_the_limit_and_no_longer() {
    let long = |part: &str, between: &str, parts: usize| vec![part; parts].join(between);
    assert_eq!(value(&(long("1", " + ", 199) + " = 199")), Ok(1.0));
    let chains = [
        long("1", "+", 30_000) + " > 0",
        long("1>0", " and ", 30_000),
        long("1>0", " or ", 30_000),
        long("1", "*", 30_000) + " > 0",
        format!("mean(delay_ms{}) > 0ms", long("[cc=cubic]", "", 30_000)),
        format!("count([{}] > 0) > 0", long("1", ",", 30_000)),
        format!("{}1 < 9", long("-", "", 30_000)),
        format!("{}1 > 0", long("not ", "", 30_000)),
        format!("{}1{} > 0", long("(", "", 30_000), long(")", "", 30_000)),
    ];
    for chain in chains {
        let error = parse(&chain).unwrap_err();
        assert!(error.starts_with("more than "), "{error}");
    }
}

#[test]
fn tables_with_other_axes_do_not_multiply_without_bound() {
    let along = |axis: &str| Table {
        kind: Kind::Truth,
        axes: vec![axis.into()],
        rows: (0..1_000).map(|at| Row::new(vec![at.to_string().into()], 1.0)).collect(),
    };
    let pair = |_: &Row, _: &Row, coordinates| Row::new(coordinates, 1.0);
    let error = along("a").join(&along("b"), pair).unwrap_err();
    assert_eq!(error, "the two sides make more than 300000 values");
    assert_eq!(along("a").join(&along("a"), pair).unwrap().1.len(), 1_000);
}
