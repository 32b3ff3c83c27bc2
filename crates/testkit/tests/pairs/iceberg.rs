//! The sink end of Iceberg, read by DuckDB.

use std::path::Path;

use anyhow::Result;
use lakeward_testkit::form::{Form, of_lake_kind};
use lakeward_testkit::lake::{Lake, LakeTable, Reader};
use serde_json::{Value, json};

use crate::run::{Content, TextRow};

pub struct Iceberg {
    lake: Lake,
}

impl Iceberg {
    pub fn new(folder: &Path) -> Self {
        Self { lake: Lake::in_folder(folder) }
    }

    pub fn options(&self) -> Value {
        json!({
            "type": "iceberg", "catalog.properties.type": "sql",
            "catalog.properties.uri": format!("sqlite:///{}", self.lake.catalog.display()),
            "catalog.properties.warehouse": format!("file://{}", self.lake.warehouse.display()),
        })
    }

    pub fn read(&self, forms: &dyn Fn(&str, &str, &str) -> Form) -> Result<Content> {
        let mut content = Content::default();
        for table in self.lake.tables()? {
            if table.namespace.starts_with("pair_") {
                let rows = self.rows(&table, forms)?;
                let columns = table.columns.iter().map(|c| c.name.clone()).collect();
                content.insert((table.namespace.clone(), table.name.clone()), (columns, rows));
            }
        }
        Ok(content)
    }

    fn rows(
        &self,
        table: &LakeTable,
        forms: &dyn Fn(&str, &str, &str) -> Form,
    ) -> Result<Vec<TextRow>> {
        let mut rows = Vec::new();
        self.lake.each_row(table, Reader::DuckDb, |row| {
            let one = |(value, column): (Option<String>, &lakeward_testkit::lake::LakeColumn)| {
                let form = forms(&table.namespace, &table.name, &column.name);
                let read = |text: String| match form {
                    Form::Json => form.of_lake(&column.kind, &text),
                    _ => of_lake_kind(&column.kind, &text),
                };
                value.map(read).transpose()
            };
            rows.push(row.into_iter().zip(&table.columns).map(one).collect::<Result<_>>()?);
            Ok(())
        })?;
        Ok(rows)
    }
}
