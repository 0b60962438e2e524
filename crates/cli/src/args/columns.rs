//! A choice of columns, as lsblk's `-o` takes it.

use crate::exit::UsageError;

/// The columns asked for.
pub(crate) struct Columns<'a>(pub(crate) &'a [String]);

impl Columns<'_> {
    /// Returns the indexes in `all` of the columns, in the order asked for; `usual` come first after a `+`. Case
    /// does not matter.
    pub(crate) fn pick(&self, all: &[&str], usual: &[&str]) -> Result<Vec<usize>, UsageError> {
        let at = |name: &str| all.iter().position(|one| one.eq_ignore_ascii_case(name));
        let mut picked = Vec::new();
        for (index, name) in self.0.iter().enumerate() {
            let added = name.strip_prefix('+').filter(|_| index == 0);
            if added.is_some() {
                picked.extend(usual.iter().filter_map(|name| at(name)));
            }
            let name = added.unwrap_or(name);
            let column = at(name).ok_or_else(|| {
                UsageError(format!("unknown column '{name}'; the columns are {}", all.join(", ")))
            })?;
            picked.push(column);
        }
        Ok(picked)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::Columns;

    #[test]
    fn columns_are_picked_in_order_and_added_as_by_lsblk() {
        let pick = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            Columns(&asked).pick(&["A", "B", "C"], &["A", "B"]).map_err(|error| error.0)
        };
        assert_eq!(pick(&["c", "A"]).unwrap(), [2, 0]);
        assert_eq!(pick(&["+C"]).unwrap(), [0, 1, 2]);
        assert_eq!(pick(&["A", "+C"]).unwrap_err(), "unknown column '+C'; the columns are A, B, C");
    }
}
