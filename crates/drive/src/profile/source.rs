//! Values with sources: `{ value = 5400, source = "data sheet" }`.

use schemars::JsonSchema;
use serde::Serialize;
use toml::{Table, Value};

/// A number in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ProfileFigure")]
pub struct Figure {
    /// The path of the number in the profile.
    pub path: String,
    /// The value as written in the profile.
    pub value: String,
    /// The source of the value; absent if the profile names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Reduces every sourced value of `table` to its value, and lists all numbers with their sources.
pub(super) fn strip(table: &mut Table) -> Vec<Figure> {
    let mut figures = Vec::new();
    // The numbers under `fit` are bounds for a search, not figures of the drive.
    for (key, value) in table.iter_mut().filter(|(key, _)| *key != "fit") {
        strip_value(key.clone(), value, &mut figures);
    }
    figures
}

fn strip_value(path: String, value: &mut Value, figures: &mut Vec<Figure>) {
    if let Some((bare, source)) = sourced(value) {
        figures.push(Figure { path, value: written(&bare), source: Some(source) });
        *value = bare;
        return;
    }
    match value {
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                strip_value(format!("{path}.{key}"), value, figures);
            }
        }
        Value::Integer(_) | Value::Float(_) | Value::Array(_) => {
            figures.push(Figure { path, value: written(value), source: None });
        }
        _ => {}
    }
}

/// A value as written in the file; of a long list, the number of its values.
fn written(value: &Value) -> String {
    match value {
        Value::Array(list) if list.len() > 4 => format!("{} entries", list.len()),
        _ => value.to_string(),
    }
}

fn sourced(value: &Value) -> Option<(Value, String)> {
    let table = value.as_table()?;
    let (bare, source) = (table.get("value")?, table.get("source")?.as_str()?);
    (table.len() == 2).then(|| (bare.clone(), source.to_owned()))
}

pub(super) fn overlay(lower: &mut Table, upper: Table) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !is_sourced(below) && !is_sourced(&above) => {
                overlay(below, above);
            }
            (_, value) => {
                lower.insert(key, value);
            }
        }
    }
}

fn is_sourced(table: &Table) -> bool {
    table.len() == 2 && table.contains_key("value") && table.contains_key("source")
}

/// Sets the number at `path`, whether or not it exists yet.
pub(super) fn replace(table: &mut Table, path: &str, number: f64) {
    let mut here = table;
    let mut keys = path.split('.').peekable();
    while let Some(key) = keys.next() {
        if keys.peek().is_none() {
            let whole = number.fract() == 0.0;
            #[allow(clippy::cast_possible_truncation, reason = "a knob's bounds are small")]
            let value = if whole { Value::Integer(number as i64) } else { Value::Float(number) };
            here.insert(key.to_owned(), value);
            return;
        }
        let next = here.entry(key).or_insert_with(|| Value::Table(Table::new()));
        let Some(next) = next.as_table_mut() else { return };
        here = next;
    }
}
