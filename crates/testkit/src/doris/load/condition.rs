//! The small conditions of `delete` and `where`: comparisons of a field with a constant, joined by AND.

use std::cmp::Ordering;

#[derive(Debug, Clone, PartialEq)]
pub struct Condition(Vec<Comparison>);

#[derive(Debug, Clone, PartialEq)]
struct Comparison {
    field: String,
    operator: String,
    constant: String,
}

const OPERATORS: &[&str] = &["<=", ">=", "!=", "<>", "=", "<", ">"];

impl Condition {
    /// # Errors
    /// Says what this stand-in cannot evaluate.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unknown = || format!("the stand-in does not evaluate the condition {text}");
        let mut comparisons = Vec::new();
        for part in split_and(text) {
            let (at, operator) = OPERATORS
                .iter()
                .filter_map(|op| part.find(op).map(|at| (at, *op)))
                .min_by_key(|(at, op)| (*at, std::cmp::Reverse(op.len())))
                .ok_or_else(unknown)?;
            let field = part[..at].trim().trim_matches('`');
            let constant = part[at + operator.len()..].trim();
            let plain =
                constant.strip_prefix(['\'', '"']).and_then(|c| c.strip_suffix(['\'', '"']));
            if field.is_empty()
                || constant.is_empty()
                || !field.chars().all(|c| c.is_alphanumeric() || c == '_')
            {
                return Err(unknown());
            }
            comparisons.push(Comparison {
                field: field.to_owned(),
                operator: operator.to_owned(),
                constant: plain.unwrap_or(constant).to_owned(),
            });
        }
        Ok(Self(comparisons))
    }

    /// Names of the fields that are compared.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|c| c.field.as_str())
    }

    /// True where every comparison holds; NULL compares with nothing. `value` gives the text of a field.
    pub fn holds<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|comparison| {
            let Some(text) = value(&comparison.field) else { return false };
            let order = match (text.parse::<f64>(), comparison.constant.parse::<f64>()) {
                (Ok(a), Ok(b)) => a.partial_cmp(&b),
                _ => Some(text.cmp(comparison.constant.as_str())),
            };
            match (comparison.operator.as_str(), order) {
                (_, None) => false,
                ("=", Some(order)) => order == Ordering::Equal,
                ("!=" | "<>", Some(order)) => order != Ordering::Equal,
                ("<", Some(order)) => order == Ordering::Less,
                ("<=", Some(order)) => order != Ordering::Greater,
                (">", Some(order)) => order == Ordering::Greater,
                (_, Some(order)) => order != Ordering::Less,
            }
        })
    }
}

fn split_and(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    let lower = text.to_ascii_lowercase();
    let mut begun = 0;
    while let Some(at) = lower[begun..].find(" and ") {
        parts.push(text[begun..begun + at].trim());
        begun += at + 5;
        rest = &text[begun..];
    }
    parts.push(rest.trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        let row = |name: &str| match name {
            "id" => Some("10"),
            "op" => Some("d"),
            _ => None,
        };
        let holds = |text: &str| Condition::parse(text).unwrap().holds(row);
        assert!(holds("op = 'd' AND `id` >= 9"));
        assert!(!holds("op='d' and id < 10"));
        assert!(!holds("missing != 1"), "NULL compares with nothing");
        assert!(Condition::parse("abs(id) = 1").is_err());
        assert!(Condition::parse("id").is_err());
    }
}
