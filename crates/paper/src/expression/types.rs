//! Whether an expression makes sense, before anything is run.

use super::parse::{Expression, Operator, Selector};
use super::reduce::{REDUCTIONS, Reduction};
use super::table::Kind;
use crate::unit::Unit;

/// What an expression will be.
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// What its values are.
    pub kind: Kind,
    /// Its axes, each with its places where they are known.
    pub axes: Vec<(String, Vec<String>)>,
    /// Labels that rows can be selected by.
    pub labels: &'static [&'static str],
}

impl Type {
    fn scalar(kind: Kind) -> Self {
        Self { kind, axes: Vec::new(), labels: &[] }
    }

    /// The axes on which there may be more than one place.
    pub fn wide_axes(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().filter(|(_, places)| places.len() != 1).map(|(name, _)| &**name)
    }
}

/// What fields are.
pub trait TypeSource {
    /// The type of a field.
    ///
    /// # Errors
    /// When there is no such field or run.
    fn field_type(&self, name: &str, run: Option<&str>) -> Result<Type, String>;
}

/// Returns what an expression will be.
///
/// # Errors
/// When a name is unknown, units do not fit, or a selector selects nothing.
pub fn type_of(expression: &Expression, source: &impl TypeSource) -> Result<Type, String> {
    match expression {
        Expression::Number(_, unit) => Ok(Type::scalar(Kind::Quantity(*unit))),
        Expression::Field { name, run } => source.field_type(name, run.as_deref()),
        Expression::List(values) => list(values, source),
        Expression::Negative(inner) => {
            let inner = type_of(inner, source)?;
            quantity(inner.kind)?;
            Ok(inner)
        }
        Expression::Not(inner) => {
            let inner = type_of(inner, source)?;
            truth(inner.kind)?;
            Ok(inner)
        }
        Expression::Binary(operator, left, right) => {
            let (left, right) = (type_of(left, source)?, type_of(right, source)?);
            let kind = binary_kind(*operator, left.kind, right.kind)?;
            Ok(Type { kind, ..joined(left, right) })
        }
        Expression::Select(inner, selectors) => {
            let inner = type_of(inner, source)?;
            selectors.iter().try_fold(inner, selected)
        }
        Expression::Call { name, arguments, over } => call(name, arguments, over, source),
    }
}

fn list(values: &[Expression], source: &impl TypeSource) -> Result<Type, String> {
    let mut kind = None;
    for value in values {
        let value = type_of(value, source)?;
        if !value.axes.is_empty() {
            return Err("a list has single values".to_owned());
        }
        if kind.is_some_and(|kind| kind != value.kind) {
            return Err("the values of a list have different units".to_owned());
        }
        kind = Some(value.kind);
    }
    let kind = kind.ok_or("an empty list")?;
    Ok(Type { kind, axes: vec![("list".to_owned(), Vec::new())], labels: &[] })
}

fn joined(left: Type, right: Type) -> Type {
    let mut axes = left.axes;
    for axis in right.axes {
        if axes.iter().all(|(name, _)| *name != axis.0) {
            axes.push(axis);
        }
    }
    Type { axes, labels: &[], ..left }
}

pub(super) fn quantity(kind: Kind) -> Result<Unit, String> {
    match kind {
        Kind::Quantity(unit) => Ok(unit),
        Kind::Truth => Err("a comparison is no quantity".to_owned()),
    }
}

pub(super) fn truth(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::Truth => Ok(()),
        Kind::Quantity(unit) => Err(format!("{} is neither true nor false", unit.what())),
    }
}

pub(super) fn binary_kind(operator: Operator, left: Kind, right: Kind) -> Result<Kind, String> {
    if matches!(operator, Operator::And | Operator::Or) {
        truth(left).and(truth(right))?;
        return Ok(Kind::Truth);
    }
    let (left, right) = (quantity(left)?, quantity(right)?);
    let same = || match left == right {
        true => Ok(()),
        false => Err(format!("units do not fit: {} and {}", left.what(), right.what())),
    };
    Ok(match operator {
        Operator::Multiply => Kind::Quantity(left.times(right)),
        Operator::Divide => Kind::Quantity(left.per(right)),
        Operator::Add | Operator::Subtract => {
            same()?;
            Kind::Quantity(left)
        }
        _ => {
            same()?;
            Kind::Truth
        }
    })
}

fn selected(mut inner: Type, selector: &Selector) -> Result<Type, String> {
    let Some(at) = inner.axes.iter().position(|(name, _)| *name == selector.axis) else {
        if inner.labels.contains(&&*selector.axis) {
            return Ok(inner);
        }
        let axes: Vec<&str> = inner.axes.iter().map(|(name, _)| &**name).collect();
        let (wrong, known) = (&selector.axis, axes.join(", "));
        return Err(format!("there is no axis `{wrong}` here; there are {known}"));
    };
    let places = &mut inner.axes[at].1;
    if !places.is_empty() {
        let before = places.join(", ");
        places.retain(|place| selector.means(place));
        if places.is_empty() {
            return Err(format!("{} selects nothing of {before}", selector.text()));
        }
    }
    if selector.is_single() {
        inner.axes.remove(at);
    }
    Ok(inner)
}

fn call(
    name: &str,
    arguments: &[Expression],
    over: &[String],
    source: &impl TypeSource,
) -> Result<Type, String> {
    let types: Result<Vec<Type>, String> =
        arguments.iter().map(|argument| type_of(argument, source)).collect();
    let types = types?;
    if name == "abs" && types.len() == 1 && over.is_empty() {
        quantity(types[0].kind)?;
        return Ok(types.into_iter().next().unwrap_or(Type::scalar(Kind::Truth)));
    }
    if name == "where" && types.len() == 2 && over.is_empty() {
        quantity(types[0].kind)?;
        truth(types[1].kind)?;
        return Ok(types.into_iter().reduce(joined).unwrap_or(Type::scalar(Kind::Truth)));
    }
    let reduction = Reduction::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = REDUCTIONS.iter().map(|(name, _)| *name).collect();
        format!("unknown function `{name}`; there are abs, where, {}", known.join(", "))
    })?;
    if types.len() != reduction.arity() {
        let wanted = reduction.arity();
        return Err(format!("{name} takes {wanted} arguments, not {}", types.len()));
    }
    let kinds: Vec<Kind> = types.iter().map(|argument| argument.kind).collect();
    let kind = reduction.kind(&kinds).map_err(|why| format!("{name} {why}"))?;
    percentile(reduction, &arguments[0])?;
    let all = types.into_iter().reduce(joined).unwrap_or(Type::scalar(kind));
    if let Some(unknown) = over.iter().find(|axis| all.axes.iter().all(|(name, _)| name != *axis)) {
        let axes: Vec<&str> = all.axes.iter().map(|(name, _)| &**name).collect();
        return Err(format!("{name}: no axis `{unknown}`; there are {}", axes.join(", ")));
    }
    let stays = |name: &String| !over.is_empty() && !over.contains(name);
    let axes = all.axes.into_iter().filter(|(name, _)| stays(name)).collect();
    Ok(Type { kind, axes, labels: &[] })
}

/// Refuses `p(50%, x)`: 50 % is the number 0.5, and the 0.5th percentile is not the median.
fn percentile(reduction: Reduction, first: &Expression) -> Result<(), String> {
    match first {
        Expression::Number(number, _)
            if reduction == Reduction::Percentile && !(1.0..=100.0).contains(number) =>
        {
            Err(format!("p takes a percentile from 1 to 100, not {number}: p(50, x) is the median"))
        }
        _ => Ok(()),
    }
}
