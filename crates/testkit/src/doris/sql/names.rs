//! Which names Doris takes for databases, tables and columns.

use super::SqlError;

const LONGEST_TABLE_NAME: usize = 64;

pub fn check_database(name: &str) -> Result<(), SqlError> {
    match is_plain(name) {
        true => Ok(()),
        false => Err(SqlError::new(1102, format!("Incorrect database name '{name}'"))),
    }
}

pub fn check_table(name: &str) -> Result<(), SqlError> {
    if !is_plain(name) {
        return Err(SqlError::new(
            1103,
            format!(
                "Incorrect table name '{name}'. Table name regex is '^[a-zA-Z][a-zA-Z0-9\\-_]*$'"
            ),
        ));
    }
    if name.len() > LONGEST_TABLE_NAME {
        return Err(SqlError::new(
            1103,
            format!(
                "Incorrect table name, table name length is larger than {LONGEST_TABLE_NAME}: {name}"
            ),
        ));
    }
    Ok(())
}

pub fn check_column(name: &str) -> Result<(), SqlError> {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || "_@/ ".contains(c));
    let others =
        chars.all(|c| c.is_ascii_alphanumeric() || ".+-/?@#$%^&*\"_,: <>()[];=!'".contains(c));
    if !first || !others || name.len() > 256 {
        return Err(SqlError::new(1166, format!("Incorrect column name '{name}'")));
    }
    if ["__DORIS_", "mv_", "mva_"].iter().any(|prefix| name.starts_with(prefix)) {
        return Err(SqlError::new(
            1166,
            format!("Incorrect column name {name}, column name can't start with a system prefix"),
        ));
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(check_table("t1-x_y").is_ok());
        for bad in ["_t", "1t", "tä", "a.b", "", &"x".repeat(65)] {
            assert!(check_table(bad).is_err(), "{bad}");
        }
        assert!(check_column("_id").is_ok() && check_column("2nd col").is_ok());
        for bad in ["", "__DORIS_X", "mv_a", "ä"] {
            assert!(check_column(bad).is_err(), "{bad}");
        }
    }
}
