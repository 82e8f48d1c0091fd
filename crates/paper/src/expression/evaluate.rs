//! Expressions to values.

use std::collections::HashMap;
use std::sync::Arc;

use super::parse::{Expression, Operator, Selector};
use super::reduce::Reduction;
use super::table::{Kind, Margin, Row, Table};
use super::types::{binary_kind, quantity};

/// Where the values of fields come from.
pub trait Source {
    /// The values of a field.
    ///
    /// # Errors
    /// When there is no such field.
    fn field(&self, name: &str, run: Option<&str>) -> Result<Table, String>;
}

/// Returns the values of an expression.
///
/// # Errors
/// When a field is missing, or a selector selects nothing.
pub fn evaluate(expression: &Expression, source: &impl Source) -> Result<Table, String> {
    match expression {
        Expression::Number(value, unit) => Ok(Table::scalar(Kind::Quantity(*unit), *value)),
        Expression::Field { name, run } => source.field(name, run.as_deref()),
        Expression::List(values) => list(values, source),
        Expression::Negative(inner) => mapped(evaluate(inner, source)?, |value| -value),
        Expression::Not(inner) => mapped(evaluate(inner, source)?, |value| 1.0 - value),
        Expression::Binary(operator, left, right) => {
            binary(*operator, &evaluate(left, source)?, &evaluate(right, source)?)
        }
        Expression::Select(inner, selectors) => {
            selectors.iter().try_fold(evaluate(inner, source)?, selected)
        }
        Expression::Call { name, arguments, over } => {
            let arguments: Result<Vec<Table>, String> =
                arguments.iter().map(|argument| evaluate(argument, source)).collect();
            call(name, &arguments?, over)
        }
    }
}

fn list(values: &[Expression], source: &impl Source) -> Result<Table, String> {
    let mut table = Table::scalar(Kind::Truth, 0.0);
    table.axes.push("list".into());
    table.rows.clear();
    for (at, value) in values.iter().enumerate() {
        let value = evaluate(value, source)?;
        table.kind = value.kind;
        let place = vec![at.to_string().into()];
        table.rows.extend(value.rows.first().map(|row| Row::new(place, row.value)));
    }
    Ok(table)
}

fn mapped(mut table: Table, change: impl Fn(f64) -> f64) -> Result<Table, String> {
    table.rows.iter_mut().for_each(|row| row.value = change(row.value));
    Ok(table)
}

fn binary(operator: Operator, left: &Table, right: &Table) -> Result<Table, String> {
    let kind = binary_kind(operator, left.kind, right.kind)?;
    let unit = quantity(left.kind).unwrap_or_default();
    let (axes, rows) = left.join(right, |left, right, coordinates| Row {
        coordinates,
        labels: if right.labels.is_empty() { left.labels.clone() } else { right.labels.clone() },
        value: calculate(operator, left.value, right.value),
        margin: match operator {
            Operator::And | Operator::Or => decisive(operator, left, right).margin.clone(),
            _ if kind == Kind::Truth => {
                Some(Margin { value: left.value, bound: right.value, unit, place: Vec::new() })
            }
            _ => None,
        },
    })?;
    Ok(Table { kind, axes, rows })
}

/// What is no number compares with nothing; so a division by zero is none.
fn calculate(operator: Operator, left: f64, right: f64) -> f64 {
    let truth = |is: bool| f64::from(u8::from(is && left.is_finite() && right.is_finite()));
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide if right == 0.0 => f64::NAN,
        Operator::Divide => left / right,
        Operator::AtMost => truth(left <= right),
        Operator::AtLeast => truth(left >= right),
        Operator::Less => truth(left < right),
        Operator::More => truth(left > right),
        Operator::Equal => truth((left - right).abs() <= 1e-9 * right.abs().max(1.0)),
        Operator::Unequal => truth((left - right).abs() > 1e-9 * right.abs().max(1.0)),
        Operator::And => left.min(right),
        Operator::Or => left.max(right),
    }
}

/// Which of the two decides what comes out.
fn decisive<'a>(operator: Operator, left: &'a Row, right: &'a Row) -> &'a Row {
    let is_left = match operator {
        Operator::And => (left.value, distance(left)) <= (right.value, distance(right)),
        _ => (left.value, distance(left)) >= (right.value, distance(right)),
    };
    if is_left { left } else { right }
}

fn distance(row: &Row) -> f64 {
    row.margin.as_ref().map_or(f64::MAX, Margin::distance)
}

fn selected(mut table: Table, selector: &Selector) -> Result<Table, String> {
    match table.axis(&selector.axis) {
        Some(at) => {
            table.rows.retain(|row| selector.means(&row.coordinates[at]));
            if selector.is_single() {
                table.axes.remove(at);
                table.rows.iter_mut().for_each(|row| drop(row.coordinates.remove(at)));
            }
        }
        None => table.rows.retain(|row| {
            row.labels.iter().any(|(name, place)| *name == selector.axis && selector.means(place))
        }),
    }
    if table.rows.is_empty() {
        return Err(format!("{} selects nothing", selector.text()));
    }
    Ok(table)
}

fn call(name: &str, arguments: &[Table], over: &[String]) -> Result<Table, String> {
    if name == "abs" {
        return mapped(arguments[0].clone(), f64::abs);
    }
    if name == "where" {
        let mut kept = Vec::new();
        let (axes, _) = arguments[0].join(&arguments[1], |row, is, coordinates| {
            if is.value == 1.0 {
                kept.push(Row { labels: row.labels.clone(), ..Row::new(coordinates, row.value) });
            }
            Row::new(Vec::new(), 0.0)
        })?;
        return match kept.is_empty() {
            true => Err("where(...): nothing is so".to_owned()),
            false => Ok(Table { kind: arguments[0].kind, axes, rows: kept }),
        };
    }
    let reduction = Reduction::by_name(name).ok_or_else(|| format!("unknown function `{name}`"))?;
    let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind).collect();
    let kind = reduction.kind(&kinds).map_err(|why| format!("{name} {why}"))?;
    let (axes, pairs) = pairs(arguments)?;
    let stays = |axis: &Arc<str>| !over.is_empty() && !over.iter().any(|gone| **gone == **axis);
    let kept: Vec<usize> = (0..axes.len()).filter(|at| stays(&axes[*at])).collect();
    let gone: Vec<usize> = (0..axes.len()).filter(|at| !stays(&axes[*at])).collect();
    let mut order: Vec<Vec<Arc<str>>> = Vec::new();
    let mut groups: HashMap<Vec<Arc<str>>, Vec<&Pair>> = HashMap::new();
    for pair in &pairs {
        let key: Vec<_> = kept.iter().map(|at| Arc::clone(&pair.0.coordinates[*at])).collect();
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(pair);
    }
    let rows = order.into_iter().map(|key| {
        let group = &groups[&key];
        let x: Vec<f64> = group.iter().map(|(row, _)| row.value).collect();
        let y: Vec<f64> = match reduction.arity() {
            2 => group.iter().map(|(_, second)| *second).collect(),
            _ => Vec::new(),
        };
        let margin = match reduction {
            Reduction::All => extreme(group, &gone, Operator::And),
            Reduction::Any => extreme(group, &gone, Operator::Or),
            _ => None,
        };
        Row { margin, ..Row::new(key, reduction.apply(&x, &y)) }
    });
    let rows = rows.collect();
    Ok(Table { kind, axes: kept.iter().map(|at| Arc::clone(&axes[*at])).collect(), rows })
}

/// A row of the first argument with the value of the second.
type Pair = (Row, f64);

/// The rows of the first argument, each with the value of the second, if there is one.
fn pairs(arguments: &[Table]) -> Result<(Vec<Arc<str>>, Vec<Pair>), String> {
    let first = &arguments[0];
    let Some(second) = arguments.get(1) else {
        let rows = first.rows.iter().map(|row| (row.clone(), f64::NAN)).collect();
        return Ok((first.axes.clone(), rows));
    };
    let mut values = Vec::new();
    let (axes, rows) = first.join(second, |left, right, coordinates| {
        values.push(right.value);
        Row::new(coordinates, left.value)
    })?;
    Ok((axes, rows.into_iter().zip(values).collect()))
}

/// The margin of the row that decides, and where it is on the axes that are gone.
fn extreme(group: &[&Pair], gone: &[usize], operator: Operator) -> Option<Margin> {
    let rows = group.iter().map(|(row, _)| row);
    let row = rows.reduce(|best, row| decisive(operator, best, row))?;
    let mut margin = row.margin.clone()?;
    margin.place.extend(gone.iter().map(|at| Arc::clone(&row.coordinates[*at])));
    Some(margin)
}
