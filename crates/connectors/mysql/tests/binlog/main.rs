//! Binlog files recorded on real servers (`record.py`), decoded and compared with what SELECT
//! answered there.

mod damaged;
mod disagreement;
mod events;
mod recorded;
mod replay;

use recorded::Recording;

/// Every row event of the file, applied in order, leaves the rows that the server had at the end.
fn agrees(name: &str, recording: &Recording) {
    let found = replay::tables(recording);
    let mut differences = Vec::new();
    for (table, expected) in &recording.tables {
        let found = found.get(table).map_or(&[][..], Vec::as_slice);
        if found.len() != expected.rows.len() {
            differences.push(format!(
                "{table}: {} rows, expected {}",
                found.len(),
                expected.rows.len()
            ));
        }
        for (found, expected_row) in found.iter().zip(&expected.rows) {
            for (i, (found, wanted)) in found.iter().zip(expected_row).enumerate() {
                if found != wanted {
                    let column = &expected.table.columns[i].name;
                    differences.push(format!(
                        "{table}.{column} row {:?}: {found:?}, expected {wanted:?}",
                        expected_row[0]
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    assert!(found.values().any(|rows| !rows.is_empty()), "{name} has rows");
}

macro_rules! recordings {
    ($($test:ident = $name:literal),* $(,)?) => {
        $(#[test] fn $test() { agrees($name, &Recording::load($name)); })*
        const RECORDINGS: &[&str] = &[$($name),*];
    };
}

recordings! {
    mariadb_types = "mariadb-types",
    mariadb_types_without_metadata = "mariadb-types-nolog",
    mariadb_types_with_minimal_metadata = "mariadb-types-minimal",
    mariadb_times_before_mysql_56 = "mariadb-old-times",
    mariadb_compressed_events = "mariadb-compressed",
    mariadb_partial_images = "mariadb-images",
    mariadb_118_types = "mariadb118-new",
    mysql_types = "mysql-types",
    mysql_types_with_minimal_metadata = "mysql-types-minimal",
    mysql_json = "mysql-json",
    mysql_partial_json = "mysql-partial-json",
    mysql_compressed_transactions = "mysql-payload",
    mysql_partial_images = "mysql-images",
}

#[test]
fn logs_without_checksums() {
    for name in RECORDINGS {
        agrees(name, &Recording::load(name).without_checksums());
    }
}
