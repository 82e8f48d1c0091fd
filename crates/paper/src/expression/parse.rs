//! Texts to expressions.

use crate::unit::{Unit, read_quantity};

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number in seconds, bits and packets.
    Number(f64, Unit),
    /// A field of a run's records; of the check's own run unless it is named.
    Field {
        /// The field.
        name: String,
        /// Another run of the claim.
        run: Option<String>,
    },
    /// Values in a row.
    List(Vec<Self>),
    /// `-x`
    Negative(Box<Self>),
    /// `not x`
    Not(Box<Self>),
    /// Two operands.
    Binary(Operator, Box<Self>, Box<Self>),
    /// `x[cc=cubic]`
    Select(Box<Self>, Vec<Selector>),
    /// `mean(x; start)`
    Call {
        /// The function.
        name: String,
        /// Its arguments.
        arguments: Vec<Self>,
        /// The axes over which it reduces; none: all.
        over: Vec<String>,
    },
}

/// What stands between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `<`
    Less,
    /// `>`
    More,
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `and`
    And,
    /// `or`
    Or,
}

/// One part of a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// The axis or label.
    pub axis: String,
    /// The places that are meant.
    pub wanted: Vec<String>,
    /// All others instead.
    pub is_excluded: bool,
}

/// Levels of parentheses and signs.
const MAX_DEPTH: usize = 50;
/// Operators, selections and values of an expression. A chain such as `1 + 1 + 1` is a tree as deep
/// as it is long, and every walk over it recurses.
const MAX_PARTS: usize = 400;

/// Reads an expression.
///
/// # Errors
/// With the place and what was expected there.
pub fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { text, at: 0, depth: 0, parts: 0 };
    let expression = parser.either()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.expected("an operator or the end"));
    }
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    parts: usize,
}

const COMPARISONS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    (">", Operator::More),
    ("=", Operator::Equal),
];

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn expected(&self, what: &str) -> String {
        let rest = self.rest();
        let found = if rest.is_empty() { "the end" } else { rest };
        format!("expected {what} instead of `{}`", found.chars().take(30).collect::<String>())
    }

    /// Takes `symbol`, if it comes next.
    fn takes(&mut self, symbol: &str) -> bool {
        self.blanks();
        let takes = self.rest().starts_with(symbol);
        self.at += if takes { symbol.len() } else { 0 };
        takes
    }

    /// Takes the word, if it comes next and is not the begin of a longer one.
    fn takes_word(&mut self, word: &str) -> bool {
        self.blanks();
        let takes = self.word() == word;
        self.at += if takes { word.len() } else { 0 };
        takes
    }

    fn needs(&mut self, symbol: &str) -> Result<(), String> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    /// The word that comes next, not taken.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        &rest[..rest.find(|c| !is_inside(c)).unwrap_or(rest.len())]
    }

    fn either(&mut self) -> Result<Expression, String> {
        let mut left = self.both()?;
        while self.takes_word("or") {
            self.count_part()?;
            left = binary(Operator::Or, left, self.both()?);
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expression, String> {
        let mut left = self.negation()?;
        while self.takes_word("and") {
            self.count_part()?;
            left = binary(Operator::And, left, self.negation()?);
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expression, String> {
        if self.takes_word("not") {
            return self.deeper(|parser| Ok(Expression::Not(Box::new(parser.negation()?))));
        }
        self.comparison()
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.count_part()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} levels"));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn count_part(&mut self) -> Result<(), String> {
        self.parts += 1;
        match self.parts {
            0..=MAX_PARTS => Ok(()),
            _ => Err(format!("more than {MAX_PARTS} operators, selections and values")),
        }
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let left = self.sum()?;
        for (symbol, operator) in COMPARISONS {
            if self.takes(symbol) {
                return Ok(binary(operator, left, self.sum()?));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.takes("+") => Operator::Add,
                () if self.takes("-") => Operator::Subtract,
                () => return Ok(left),
            };
            self.count_part()?;
            left = binary(operator, left, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.sign()?;
        loop {
            let operator = match () {
                () if self.takes("*") => Operator::Multiply,
                () if self.takes("/") => Operator::Divide,
                () => return Ok(left),
            };
            self.count_part()?;
            left = binary(operator, left, self.sign()?);
        }
    }

    fn sign(&mut self) -> Result<Expression, String> {
        if self.takes("-") {
            return self.deeper(|parser| Ok(Expression::Negative(Box::new(parser.sign()?))));
        }
        let mut value = self.deeper(Self::value)?;
        while self.takes("[") {
            self.count_part()?;
            value = Expression::Select(Box::new(value), self.selectors()?);
        }
        Ok(value)
    }

    fn value(&mut self) -> Result<Expression, String> {
        if self.takes("(") {
            let inner = self.either()?;
            self.needs(")")?;
            return Ok(inner);
        }
        if self.takes("[") {
            return self.list("]").map(Expression::List);
        }
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() => self.name(),
            _ => Err(self.expected("a value")),
        }
    }

    fn number(&mut self) -> Result<Expression, String> {
        let rest = self.rest();
        let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '%';
        let written = &rest[..rest.find(|c| !is_inside(c)).unwrap_or(rest.len())];
        let (value, unit) = read_quantity(written)
            .ok_or_else(|| format!("`{written}` is no number with a unit that is known"))?;
        self.at += written.len();
        Ok(Expression::Number(value, unit))
    }

    fn name(&mut self) -> Result<Expression, String> {
        let name = self.word().to_owned();
        self.at += name.len();
        if self.takes("(") {
            return self.call(name);
        }
        let run = self.takes("@").then(|| self.word().to_owned());
        self.at += run.as_ref().map_or(0, String::len);
        Ok(Expression::Field { name, run })
    }

    fn call(&mut self, name: String) -> Result<Expression, String> {
        let mut arguments = vec![self.either()?];
        while self.takes(",") {
            arguments.push(self.either()?);
        }
        let mut over = Vec::new();
        if self.takes(";") {
            loop {
                self.blanks();
                let axis = self.word();
                if axis.is_empty() {
                    return Err(self.expected("an axis"));
                }
                over.push(axis.to_owned());
                self.at += axis.len();
                if !self.takes(",") {
                    break;
                }
            }
        }
        self.needs(")")?;
        Ok(Expression::Call { name, arguments, over })
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expression>, String> {
        let mut values = vec![self.either()?];
        while self.takes(",") {
            values.push(self.either()?);
        }
        self.needs(end)?;
        Ok(values)
    }

    /// What stands in brackets behind a value. Controllers have commas, so that semicolons part.
    fn selectors(&mut self) -> Result<Vec<Selector>, String> {
        let end = self.rest().find(']').ok_or_else(|| self.expected("`]` at the end"))?;
        let inside = &self.rest()[..end];
        let read = |part: &str| {
            let (axis, wanted) = part
                .split_once('=')
                .ok_or_else(|| format!("[{part}] selects nothing: write, e.g., [cc=cubic]"))?;
            let (axis, is_excluded) = match axis.strip_suffix('!') {
                Some(axis) => (axis, true),
                None => (axis, false),
            };
            let wanted = wanted.split('|').map(|place| place.trim().to_owned()).collect();
            Ok(Selector { axis: axis.trim().to_owned(), wanted, is_excluded })
        };
        let selectors: Result<_, String> = inside.split(';').map(read).collect();
        self.at += end + 1;
        selectors
    }
}

fn binary(operator: Operator, left: Expression, right: Expression) -> Expression {
    Expression::Binary(operator, Box::new(left), Box::new(right))
}
