//! Values along named axes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::unit::Unit;

/// A place on each axis of a table, in their order.
pub type Coordinates = Vec<Arc<str>>;

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A quantity.
    Quantity(Unit),
    /// True (1) or false (0).
    Truth,
}

impl Kind {
    pub(crate) fn what(self) -> String {
        match self {
            Self::Quantity(unit) => unit.what(),
            Self::Truth => "true or false".to_owned(),
        }
    }
}

/// The two sides of the comparison that decided a truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Margin {
    /// The left side.
    pub value: f64,
    /// The right side.
    pub bound: f64,
    /// Their unit.
    pub unit: Unit,
    /// Where on the axes that were reduced since: `trace city-drive`.
    pub place: Vec<Arc<str>>,
}

impl Margin {
    /// How far the sides are apart, in proportion.
    pub(crate) fn distance(&self) -> f64 {
        (self.value - self.bound).abs() / self.bound.abs().max(f64::MIN_POSITIVE)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Where it is on each axis of its table.
    pub coordinates: Coordinates,
    /// What else is known of it and can be selected by: the controller of its flow.
    pub labels: Vec<(&'static str, Arc<str>)>,
    /// The value, in seconds, bits and packets; NaN where there is none.
    pub value: f64,
    /// What decided a truth.
    pub margin: Option<Margin>,
}

impl Row {
    /// A value at these coordinates.
    pub fn new(coordinates: Coordinates, value: f64) -> Self {
        Self { coordinates, labels: Vec::new(), value, margin: None }
    }
}

/// Rows of two tables joined, unless one of them alone has more: tables with different axes
/// multiply.
const MAX_JOINED: usize = 300_000;

/// Values of one kind along axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What they are.
    pub kind: Kind,
    /// The names of the axes.
    pub axes: Vec<Arc<str>>,
    /// The values.
    pub rows: Vec<Row>,
}

impl Table {
    /// One value without an axis.
    pub(crate) fn scalar(kind: Kind, value: f64) -> Self {
        Self { kind, axes: Vec::new(), rows: vec![Row::new(Vec::new(), value)] }
    }

    pub(crate) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| **axis == *name)
    }

    /// The pairs of rows that are at the same place on the axes that both tables have, and the
    /// axes of the result, which are those of both.
    pub(crate) fn join(
        &self,
        other: &Self,
        mut pair: impl FnMut(&Row, &Row, Coordinates) -> Row,
    ) -> Result<(Vec<Arc<str>>, Vec<Row>), String> {
        let shared: Vec<(usize, usize)> = (self.axes.iter().enumerate())
            .filter_map(|(left, name)| other.axis(name).map(|right| (left, right)))
            .collect();
        let own: Vec<usize> =
            (0..other.axes.len()).filter(|at| shared.iter().all(|(_, it)| it != at)).collect();
        let mut by_key: HashMap<Vec<&str>, Vec<&Row>> = HashMap::new();
        for row in &other.rows {
            let key = shared.iter().map(|(_, at)| &*row.coordinates[*at]).collect();
            by_key.entry(key).or_default().push(row);
        }
        let most = MAX_JOINED.max(self.rows.len()).max(other.rows.len());
        let mut rows = Vec::new();
        for row in &self.rows {
            let key: Vec<&str> = shared.iter().map(|(at, _)| &*row.coordinates[*at]).collect();
            for partner in by_key.get(&key).into_iter().flatten() {
                if rows.len() == most {
                    return Err(format!("the two sides make more than {most} values"));
                }
                let beyond = own.iter().map(|at| Arc::clone(&partner.coordinates[*at]));
                let place = row.coordinates.iter().cloned().chain(beyond).collect();
                rows.push(pair(row, partner, place));
            }
        }
        if rows.is_empty() {
            return Err("the two sides have no place in common".to_owned());
        }
        let beyond = own.iter().map(|at| Arc::clone(&other.axes[*at]));
        Ok((self.axes.iter().cloned().chain(beyond).collect(), rows))
    }
}
