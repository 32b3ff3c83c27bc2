//! Values as text: what a table, a CSV field and a JSON value show of them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, DurationFormat, FormatOptions};
use arrow_schema::DataType;
use lakeward_core::{ErrorKind, Result, ResultExt};

/// Instants show their zone, wall-clock times do not. Fractions are shown as far as they go.
pub(crate) const PLAIN: FormatOptions<'static> = FormatOptions::new()
    .with_display_error(false)
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_duration_format(DurationFormat::ISO8601);

/// RFC 3339.
const JSON: FormatOptions<'static> = FormatOptions::new()
    .with_display_error(false)
    .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%S%.f%:z"))
    .with_datetime_format(Some("%Y-%m-%dT%H:%M:%S%.f"))
    .with_duration_format(DurationFormat::ISO8601);

/// Writes the values of one column.
pub(crate) struct Values<'a> {
    array: &'a ArrayRef,
    formatter: ArrayFormatter<'a>,
}

impl<'a> Values<'a> {
    pub(crate) fn plain(array: &'a ArrayRef) -> Result<Self> {
        Self::new(array, &PLAIN)
    }

    pub(crate) fn json(array: &'a ArrayRef) -> Result<Self> {
        Self::new(array, &JSON)
    }

    fn new(array: &'a ArrayRef, options: &FormatOptions<'a>) -> Result<Self> {
        let formatter = ArrayFormatter::try_new(array, options)
            .or_err(ErrorKind::Config, "a column's type cannot be shown; cast it to a string")?;
        Ok(Self { array, formatter })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    pub(crate) fn text(&self, row: usize) -> Result<String> {
        let value = self.formatter.value(row).try_to_string();
        value.or_err(ErrorKind::Config, "a value cannot be shown; cast it to a string")
    }

    /// The value as JSON. Decimals are numbers with all their digits; what JSON has no form for is a string.
    pub(crate) fn json_text(&self, row: usize) -> Result<String> {
        if self.is_null(row) {
            return Ok("null".to_string());
        }
        let text = self.text(row)?;
        let bare = match self.array.data_type() {
            DataType::Boolean => true,
            DataType::Float32 => self.array.as_primitive::<Float32Type>().value(row).is_finite(),
            DataType::Float64 => self.array.as_primitive::<Float64Type>().value(row).is_finite(),
            other => other.is_numeric(),
        };
        if bare {
            return Ok(text);
        }
        serde_json::to_string(&text).or_err(ErrorKind::Bug, "a value cannot be written as JSON")
    }
}
