//! What a message says about its columns: the schema block of Kafka Connect, the type names of Canal, and how each value is
//! encoded.

use std::sync::Arc;

use hashbrown::HashMap;
use lakeward_core::DataType;

use crate::json::Object;
use crate::types::{database_type, decimal, jdbc_type};

/// How a column's values stand in the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As the column's type suggests: numbers and texts of the value, base64 for bytes.
    #[default]
    Plain,
    /// A number of parts of a second: so many digits behind it (3, 6, 9). Dates and times alike.
    Parts(u32),
    /// Days since the epoch.
    Days,
    /// The unscaled value's bytes in base64, with this scale.
    Unscaled(i32),
    /// An object of `scale` and `value`: a decimal whose scale is its own.
    VariableScale,
    /// Bits, lowest byte first, in base64.
    Bits,
}

/// A column as a message declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredColumn {
    pub name: Arc<str>,
    pub data_type: DataType,
    pub nullable: bool,
    pub encoding: Encoding,
}

/// All columns that a message declares, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Declared(pub Vec<DeclaredColumn>);

impl Declared {
    /// The column of a field; `at` is where it probably is.
    pub fn find(&self, name: &str, at: usize) -> Option<&DeclaredColumn> {
        self.0
            .get(at)
            .filter(|c| *c.name == *name)
            .or_else(|| self.0.iter().find(|c| *c.name == *name))
    }
}

/// Declarations by their text, so that each is read once. The text comes with every message.
#[derive(Debug, Default)]
pub struct DeclaredCache(HashMap<Box<str>, Option<Arc<Declared>>>);

/// More different texts than that are no schemas.
const CACHED: usize = 1024;

impl DeclaredCache {
    pub fn get(
        &mut self,
        text: &str,
        read: impl FnOnce(&str) -> Option<Declared>,
    ) -> Option<Arc<Declared>> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= CACHED {
            self.0.clear();
        }
        let declared = read(text).map(Arc::new);
        self.0.insert(text.into(), declared.clone());
        declared
    }
}

/// The row of a Connect schema: of the envelope's `after`, else `before`, else of the struct itself.
pub fn of_connect_schema(text: &str) -> Option<Declared> {
    let schema = Object::parse(text)?;
    let fields = fields_of(&schema)?;
    let row = |name: &str| fields.iter().find(|f| f.text("field").as_deref() == Some(name));
    let is_struct = |f: &&Object<'_>| f.text("type").as_deref() == Some("struct");
    match row("after").or_else(|| row("before")).filter(is_struct) {
        Some(row) => connect_columns(&fields_of(row)?),
        None => connect_columns(&fields),
    }
}

fn fields_of<'a>(schema: &Object<'a>) -> Option<Vec<Object<'a>>> {
    schema.list("fields")?.into_iter().map(|raw| Object::parse(raw.get())).collect()
}

fn connect_columns(fields: &[Object<'_>]) -> Option<Declared> {
    fields.iter().map(connect_column).collect::<Option<_>>().map(Declared)
}

fn connect_column(field: &Object<'_>) -> Option<DeclaredColumn> {
    let name = field.text("field")?;
    let logical = field.text("name").unwrap_or_default();
    let parameters = field.object("parameters").unwrap_or_default();
    let plain = field.text("type")?;
    let (data_type, encoding) = logical_type(&logical, &parameters)
        .or_else(|| Some((connect_type(&plain), Encoding::Plain)))?;
    let nullable = field.is_true("optional");
    Some(DeclaredColumn { name: name.as_ref().into(), data_type, nullable, encoding })
}

fn connect_type(name: &str) -> DataType {
    match name {
        "boolean" => DataType::Boolean,
        "int8" => DataType::TinyInt,
        "int16" => DataType::SmallInt,
        "int32" => DataType::Int,
        "int64" => DataType::BigInt,
        "float" | "float32" => DataType::Float,
        "double" | "float64" => DataType::Double,
        "bytes" => DataType::Bytes,
        "array" | "map" | "struct" => DataType::Json,
        _ => DataType::String,
    }
}

/// Kafka Connect's and Debezium's semantic types.
fn logical_type(name: &str, parameters: &Object<'_>) -> Option<(DataType, Encoding)> {
    let number = |key: &str| parameters.text(key).and_then(|t| t.parse::<i64>().ok());
    Some(match name {
        "org.apache.kafka.connect.data.Decimal" => {
            let scale = number("scale").unwrap_or(0);
            let precision = number("connect.decimal.precision").unwrap_or(38);
            let data_type = decimal(u32::try_from(precision).unwrap_or(0), scale);
            (data_type, Encoding::Unscaled(i32::try_from(scale).unwrap_or(0)))
        }
        "io.debezium.data.VariableScaleDecimal" => (DataType::String, Encoding::VariableScale),
        "org.apache.kafka.connect.data.Date" | "io.debezium.time.Date" => {
            (DataType::Date, Encoding::Days)
        }
        "org.apache.kafka.connect.data.Time" | "io.debezium.time.Time" => {
            (DataType::Time { precision: 3 }, Encoding::Parts(3))
        }
        "io.debezium.time.MicroTime" => (DataType::Time { precision: 6 }, Encoding::Parts(6)),
        "io.debezium.time.NanoTime" => (DataType::Time { precision: 6 }, Encoding::Parts(9)),
        "org.apache.kafka.connect.data.Timestamp" | "io.debezium.time.Timestamp" => {
            (DataType::Timestamp { precision: 3 }, Encoding::Parts(3))
        }
        "io.debezium.time.MicroTimestamp" => {
            (DataType::Timestamp { precision: 6 }, Encoding::Parts(6))
        }
        "io.debezium.time.NanoTimestamp" => {
            (DataType::Timestamp { precision: 6 }, Encoding::Parts(9))
        }
        "io.debezium.time.ZonedTimestamp" => {
            (DataType::TimestampLtz { precision: 6 }, Encoding::Plain)
        }
        "io.debezium.time.IsoDate" => (DataType::Date, Encoding::Plain),
        "io.debezium.time.IsoTimestamp" => (DataType::Timestamp { precision: 6 }, Encoding::Plain),
        "io.debezium.data.Bits" => {
            let bits = number("length").and_then(|n| u32::try_from(n).ok()).unwrap_or(64);
            (DataType::Binary { length: bits.div_ceil(8) }, Encoding::Bits)
        }
        "io.debezium.data.Json" => (DataType::Json, Encoding::Plain),
        // ZonedTime, IsoTime, Interval, Xml, Uuid, Enum, EnumSet, Year and what others bring: by the plain type.
        _ => return None,
    })
}

/// Canal's `mysqlType` and `sqlType`: types by column, for the columns of a row.
pub fn of_canal_types(mysql: &Object<'_>, sql: &Object<'_>) -> Declared {
    let fields = if mysql.0.is_empty() { &sql.0 } else { &mysql.0 };
    let column = |(name, _): &(std::borrow::Cow<'_, str>, _)| {
        let named = mysql.text(name).and_then(|t| database_type(&t));
        let data_type = named.or_else(|| sql.long(name).and_then(jdbc_type));
        DeclaredColumn {
            name: name.as_ref().into(),
            data_type: data_type.unwrap_or(DataType::String),
            nullable: true,
            encoding: Encoding::Plain,
        }
    };
    Declared(fields.iter().map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_an_envelope() {
        let schema = r#"{"type":"struct","fields":[
            {"field":"before","type":"struct","optional":true,"fields":[{"field":"id","type":"int32","optional":false}]},
            {"field":"after","type":"struct","optional":true,"fields":[
                {"field":"id","type":"int32","optional":false},
                {"field":"d","type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,
                 "parameters":{"scale":"4","connect.decimal.precision":"8"}},
                {"field":"at","type":"int64","optional":true,"name":"io.debezium.time.MicroTimestamp"},
                {"field":"y","type":"int32","optional":true,"name":"io.debezium.time.Year"},
                {"field":"tags","type":"array","optional":true,"items":{"type":"string"}}]},
            {"field":"op","type":"string"}]}"#;
        let declared = of_connect_schema(schema).unwrap();
        let found: Vec<_> =
            declared.0.iter().map(|c| (&*c.name, c.data_type, c.nullable, c.encoding)).collect();
        let money = DataType::Decimal { precision: 8, scale: 4 };
        assert_eq!(
            found,
            [
                ("id", DataType::Int, false, Encoding::Plain),
                ("d", money, true, Encoding::Unscaled(4)),
                ("at", DataType::Timestamp { precision: 6 }, true, Encoding::Parts(6)),
                ("y", DataType::Int, true, Encoding::Plain),
                ("tags", DataType::Json, true, Encoding::Plain),
            ]
        );
        assert!(of_connect_schema("{}").is_none());
    }
}
