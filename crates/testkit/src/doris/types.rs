//! Doris' column types: their names as DDL accepts them, their limits, and their names as `DESC` prints them.

use std::fmt;

/// Longest VARCHAR in bytes.
pub const MAX_VARCHAR_BYTES: u32 = 65_533;
/// What a STRING may hold in bytes, as `string_type_length_soft_limit_bytes` is set by default.
pub const MAX_STRING_BYTES: usize = 1_048_576;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DorisType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    LargeInt,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Date,
    /// Digits of the fraction of a second, 0 to 6.
    DateTime(u8),
    /// Length in bytes, up to 255.
    Char(u32),
    /// Length in bytes.
    VarChar(u32),
    String,
    Json,
    Variant,
    IpV4,
    IpV6,
    /// ARRAY, MAP, STRUCT: kept as the text of a JSON value. The name is as it was declared.
    Nested(String),
}

impl DorisType {
    /// From the name and the numbers in parentheses. `None` where Doris has no such type.
    pub fn from_name(name: &str, arguments: &[u32]) -> Option<Result<Self, String>> {
        let plain = |t: DorisType| match arguments {
            [] => Ok(t),
            _ => Err(format!("type {} takes no length", name.to_ascii_uppercase())),
        };
        Some(match name.to_ascii_uppercase().as_str() {
            "BOOLEAN" | "BOOL" => plain(Self::Boolean),
            "TINYINT" => Ok(Self::TinyInt),
            "SMALLINT" => Ok(Self::SmallInt),
            "INT" | "INTEGER" => Ok(Self::Int),
            "BIGINT" => Ok(Self::BigInt),
            "LARGEINT" => Ok(Self::LargeInt),
            "FLOAT" => plain(Self::Float),
            "DOUBLE" => plain(Self::Double),
            "DECIMAL" | "DECIMALV3" => decimal(arguments),
            "DATE" | "DATEV2" => plain(Self::Date),
            "DATETIME" | "DATETIMEV2" => match arguments {
                [] => Ok(Self::DateTime(0)),
                [digits @ 0..=6] => Ok(Self::DateTime(*digits as u8)),
                _ => Err("Scale of Datetime/Time must between 0 and 6.".to_owned()),
            },
            "CHAR" => match arguments {
                [] => Ok(Self::Char(1)),
                [length @ 1..=255] => Ok(Self::Char(*length)),
                _ => Err("Char size must be <= 255".to_owned()),
            },
            "VARCHAR" => match arguments {
                [] => Ok(Self::VarChar(MAX_VARCHAR_BYTES)),
                [length @ 1..=MAX_VARCHAR_BYTES] => Ok(Self::VarChar(*length)),
                _ => Err("Varchar size must be between 1 and 65533".to_owned()),
            },
            "STRING" | "TEXT" => plain(Self::String),
            "JSON" | "JSONB" => plain(Self::Json),
            "VARIANT" => plain(Self::Variant),
            "IPV4" => plain(Self::IpV4),
            "IPV6" => plain(Self::IpV6),
            _ => return None,
        })
    }

    /// Bytes a text of this type may have.
    pub fn max_bytes(&self) -> Option<usize> {
        match self {
            Self::Char(length) | Self::VarChar(length) => Some(*length as usize),
            Self::String | Self::Json | Self::Variant => Some(MAX_STRING_BYTES),
            _ => None,
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Self::Char(_) | Self::VarChar(_) | Self::String)
    }

    pub fn is_integer(&self) -> bool {
        self.integer_range().is_some()
    }

    pub fn is_date_like(&self) -> bool {
        matches!(self, Self::Date | Self::DateTime(_))
    }

    /// Smallest and largest value of an integer type.
    pub fn integer_range(&self) -> Option<(i128, i128)> {
        Some(match self {
            Self::TinyInt => (i8::MIN.into(), i8::MAX.into()),
            Self::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            Self::Int => (i32::MIN.into(), i32::MAX.into()),
            Self::BigInt => (i64::MIN.into(), i64::MAX.into()),
            Self::LargeInt => (i128::MIN, i128::MAX),
            _ => return None,
        })
    }

    /// Why a column of this type cannot be part of a key, if it cannot.
    pub fn refused_as_key(&self) -> Option<String> {
        let name = match self {
            Self::String => "String",
            Self::Float => "Float",
            Self::Double => "Double",
            Self::Json => "JSONB",
            Self::Variant => "Variant",
            Self::Nested(_) => "Array, Map or Struct",
            _ => return None,
        };
        Some(format!("{name} Type should not be used in key column"))
    }

    /// The lower-case name in `information_schema.columns.DATA_TYPE`.
    pub fn data_type(&self) -> &'static str {
        match self {
            Self::Boolean | Self::TinyInt => "tinyint",
            Self::SmallInt => "smallint",
            Self::Int => "int",
            Self::BigInt => "bigint",
            Self::LargeInt => "bigint unsigned",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { .. } => "decimal",
            Self::Date => "date",
            Self::DateTime(_) => "datetime",
            Self::Char(_) => "char",
            Self::VarChar(_) => "varchar",
            Self::String => "string",
            Self::Json => "json",
            Self::Variant => "variant",
            Self::IpV4 => "ipv4",
            Self::IpV6 => "ipv6",
            Self::Nested(_) => "array",
        }
    }
}

fn decimal(arguments: &[u32]) -> Result<DorisType, String> {
    let (precision, scale) = match arguments {
        [] => (38, 9),
        [precision] => (*precision, 0),
        [precision, scale] => (*precision, *scale),
        _ => return Err("decimal takes a precision and a scale".to_owned()),
    };
    if !(1..=38).contains(&precision) {
        return Err(format!(
            "Precision of decimal must between 1 and 38. Precision was set to: {precision}."
        ));
    }
    if scale > precision {
        return Err(format!(
            "Scale of decimal must be less than precision. Scale was set to: {scale}."
        ));
    }
    Ok(DorisType::Decimal { precision: precision as u8, scale: scale as u8 })
}

/// As `DESC` and `SHOW CREATE TABLE` print it.
impl fmt::Display for DorisType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::TinyInt => f.write_str("tinyint"),
            Self::SmallInt => f.write_str("smallint"),
            Self::Int => f.write_str("int"),
            Self::BigInt => f.write_str("bigint"),
            Self::LargeInt => f.write_str("largeint"),
            Self::Float => f.write_str("float"),
            Self::Double => f.write_str("double"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Date => f.write_str("date"),
            Self::DateTime(0) => f.write_str("datetime"),
            Self::DateTime(digits) => write!(f, "datetime({digits})"),
            Self::Char(length) => write!(f, "char({length})"),
            Self::VarChar(length) => write!(f, "varchar({length})"),
            Self::String => f.write_str("text"),
            Self::Json => f.write_str("json"),
            Self::Variant => f.write_str("variant"),
            Self::IpV4 => f.write_str("ipv4"),
            Self::IpV6 => f.write_str("ipv6"),
            Self::Nested(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, arguments: &[u32]) -> Option<Result<DorisType, String>> {
        DorisType::from_name(name, arguments)
    }

    #[test]
    fn limits() {
        assert_eq!(parse("varchar", &[65_533]), Some(Ok(DorisType::VarChar(65_533))));
        assert!(parse("varchar", &[65_534]).unwrap().is_err());
        assert!(parse("char", &[256]).unwrap().is_err());
        assert!(parse("DECIMALV3", &[39, 2]).unwrap().is_err());
        assert!(parse("decimal", &[10, 11]).unwrap().is_err());
        assert!(parse("datetimev2", &[7]).unwrap().is_err());
        for unknown in ["mediumtext", "timestamp", "time", "blob", "number", "bytea"] {
            assert_eq!(parse(unknown, &[]), None, "{unknown}");
        }
    }

    #[test]
    fn printed_names() {
        assert_eq!(parse("DATETIMEV2", &[6]).unwrap().unwrap().to_string(), "datetime(6)");
        assert_eq!(parse("string", &[]).unwrap().unwrap().to_string(), "text");
    }
}
