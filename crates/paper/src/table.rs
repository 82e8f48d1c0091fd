//! Values along named axes.

use std::sync::Arc;

use crate::unit::Unit;

/// A place on each axis of a table, in their order.
pub type Coordinates = Vec<Arc<str>>;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Where it is on each axis of its table.
    pub coordinates: Coordinates,
    /// What else is known of it and can be selected by: the controller of its flow.
    pub labels: Vec<(&'static str, Arc<str>)>,
    /// The value, in seconds, bits and packets; NaN where there is none.
    pub value: f64,
}

impl Row {
    /// A value at these coordinates.
    pub fn new(coordinates: Coordinates, value: f64) -> Self {
        Self { coordinates, labels: Vec::new(), value }
    }
}

/// Values of one unit along axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What they are.
    pub unit: Unit,
    /// The names of the axes.
    pub axes: Vec<Arc<str>>,
    /// The values.
    pub rows: Vec<Row>,
}

impl Table {
    pub(crate) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| **axis == *name)
    }
}
