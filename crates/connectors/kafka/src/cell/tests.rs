//! Values of all capture systems, and what fits nowhere.

use proptest::prelude::*;

use super::*;

fn dialect() -> Dialect {
    Dialect { latin1_bytes: false, decimals: DecimalEncoding::Auto, offset_secs: 0 }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn one(json: &str, data_type: DataType, encoding: Encoding) -> Result<Value<'static>, Misfit> {
    let raw = raw(json);
    read(&raw, &data_type, encoding, &dialect()).map(|value| match value {
        Value::Text(text) => Value::Text(text.into_owned().into()),
        Value::Boolean(v) => Value::Boolean(v),
        Value::Long(v) => Value::Long(v),
        Value::Double(v) => Value::Double(v),
        Value::Decimal(v) => Value::Decimal(v),
        Value::Bytes(v) => Value::Bytes(v),
        Value::Null => Value::Null,
        Value::Unavailable => Value::Unavailable,
    })
}

fn text(t: &str) -> Result<Value<'static>, Misfit> {
    Ok(Value::Text(t.to_owned().into()))
}

const PLAIN: Encoding = Encoding::Plain;

#[test]
fn integers() {
    assert_eq!(one("127", DataType::TinyInt, PLAIN), Ok(Value::Long(127)));
    assert_eq!(one("128", DataType::TinyInt, PLAIN), Err(Misfit));
    assert_eq!(
        one("\"9007199254740993\"", DataType::BigInt, PLAIN),
        Ok(Value::Long(9007199254740993))
    );
    assert_eq!(one("1e2", DataType::Int, PLAIN), Ok(Value::Long(100)));
    assert_eq!(one("1.5", DataType::Int, PLAIN), Err(Misfit));
    assert_eq!(one("true", DataType::Int, PLAIN), Ok(Value::Long(1)));
    assert_eq!(one("\"\"", DataType::Int, PLAIN), Err(Misfit));
    assert_eq!(one("null", DataType::Int, PLAIN), Ok(Value::Null));
}

#[test]
fn decimals_lose_nothing() {
    let of = |precision, scale| DataType::Decimal { precision, scale };
    assert_eq!(
        one("18446744073709551615", of(20, 0), PLAIN),
        Ok(Value::Decimal(18446744073709551615))
    );
    assert_eq!(one("\"3.50\"", of(38, 19), PLAIN), Ok(Value::Decimal(35 * 10_i128.pow(18))));
    assert_eq!(one("1.234", of(10, 2), PLAIN), Err(Misfit));
    assert_eq!(one("1.2300", of(10, 2), PLAIN), Ok(Value::Decimal(123)));
    assert_eq!(one("123456789012345678901234567890.12", of(38, 19), PLAIN), Err(Misfit));
    assert_eq!(one("1e400", of(38, 0), PLAIN), Err(Misfit));
    assert_eq!(one("0e999999999", of(38, 0), PLAIN), Ok(Value::Decimal(0)));
    let packed = Encoding::Unscaled(4);
    assert_eq!(one("\"HN8=\"", of(8, 4), packed), Ok(Value::Decimal(7391)));
    assert_eq!(one("\"4yE=\"", of(8, 4), packed), Ok(Value::Decimal(-7391)));
    assert_eq!(one("\"AA==\"", of(8, 4), packed), Ok(Value::Decimal(0)));
    assert_eq!(one("\"4yE=\"", DataType::String, packed), text("-0.7391"));
    // Without a schema: base64 that is no number is unscaled; digits that could be both are neither.
    assert_eq!(one("\"HN8=\"", of(8, 4), PLAIN), Ok(Value::Decimal(7391)));
    assert_eq!(one("\"1234\"", of(12, 0), PLAIN), Err(Misfit));
}

#[test]
fn a_scale_of_its_own() {
    let json = r#"{"scale":2,"value":"4yE="}"#;
    assert_eq!(one(json, DataType::String, Encoding::VariableScale), text("-73.91"));
    let json = r#"{"scale":-2,"value":"AQ=="}"#;
    assert_eq!(one(json, DataType::String, Encoding::VariableScale), text("100"));
    let json = r#"{"scale":2000000000,"value":"AQ=="}"#;
    assert_eq!(one(json, DataType::String, Encoding::VariableScale), Err(Misfit));
}

#[test]
fn times() {
    let at = |precision| DataType::Timestamp { precision };
    assert_eq!(one("1000", at(3), Encoding::Parts(3)), Ok(Value::Long(1_000_000)));
    assert_eq!(one("1000", at(6), Encoding::Parts(6)), Ok(Value::Long(1_000)));
    assert_eq!(one("-1", at(6), Encoding::Parts(9)), Ok(Value::Long(-1)));
    assert_eq!(one("1", DataType::Date, Encoding::Days), Ok(Value::Long(1)));
    assert_eq!(
        one("\"2024-01-01T00:00:00Z\"", at(0), PLAIN),
        Ok(Value::Long(1_704_067_200_000_000))
    );
    assert_eq!(one("\"0000-00-00 00:00:00\"", at(0), PLAIN), Ok(Value::Null));
    let zoned = DataType::TimestampLtz { precision: 6 };
    assert_eq!(one("\"1970-01-01T01:00:00+01:00\"", zoned, PLAIN), Ok(Value::Long(0)));
    let time = DataType::Time { precision: 0 };
    assert_eq!(one("\"-01:00:00\"", time, PLAIN), Ok(Value::Long(-3_600_000_000)));
    assert_eq!(one("\"soon\"", time, PLAIN), Err(Misfit));
}

#[test]
fn bytes_and_bits() {
    assert_eq!(one("\"AP8=\"", DataType::Bytes, PLAIN), Ok(Value::Bytes(vec![0, 255])));
    let two = DataType::Binary { length: 2 };
    assert_eq!(one("\"AQ==\"", two, PLAIN), Ok(Value::Bytes(vec![1, 0])));
    assert_eq!(one("\"AQI=\"", two, Encoding::Bits), Ok(Value::Bytes(vec![2, 1])));
    assert_eq!(one("\"AQ==\"", two, Encoding::Bits), Ok(Value::Bytes(vec![0, 1])));
    assert_eq!(one("258", two, PLAIN), Ok(Value::Bytes(vec![1, 2])));
    assert_eq!(one("65536", two, PLAIN), Err(Misfit));
}

#[test]
fn text_keeps_what_was_written() {
    assert_eq!(
        one("0.1234567890123456789", DataType::String, PLAIN),
        text("0.1234567890123456789")
    );
    assert_eq!(one(r#"{"a": [1]}"#, DataType::Json, PLAIN), text(r#"{"a": [1]}"#));
    assert_eq!(one(r#""a\u0041""#, DataType::String, PLAIN), text("aA"));
    assert_eq!(one(r#""\ud800""#, DataType::String, PLAIN), Err(Misfit));
}

proptest! {
    #[test]
    fn decimals_of_any_text(text in "[-+0-9.eE]{0,24}", precision in 1u8..=38, scale in 0i8..=38) {
        if let Ok(value) = decimal_text(&text, precision, scale) {
            prop_assert!(value.unsigned_abs() < 10_u128.pow(precision.into()));
        }
    }

    #[test]
    fn decimals_print_as_they_were(value in any::<i64>(), scale in 0i32..12) {
        let (negative, digits) = unscaled_digits(&value.to_be_bytes());
        let text = plain_decimal(negative, &digits, scale);
        prop_assert_eq!(decimal_text(&text, 38, scale as i8), Ok(i128::from(value)));
        prop_assert_eq!(unscaled_number(&value.to_be_bytes()), Ok(i128::from(value)));
    }

    #[test]
    fn no_string_panics(text in "\\PC{0,40}") {
        let json = serde_json::to_string(&text).unwrap();
        for data_type in [
            DataType::Boolean, DataType::Int, DataType::Double, DataType::Date, DataType::Bytes,
            DataType::Decimal { precision: 10, scale: 2 }, DataType::Time { precision: 6 },
            DataType::Timestamp { precision: 6 }, DataType::TimestampLtz { precision: 3 },
            DataType::Binary { length: 4 },
        ] {
            for encoding in [PLAIN, Encoding::Bits, Encoding::Unscaled(3), Encoding::Parts(9)] {
                let _ = one(&json, data_type, encoding);
            }
        }
    }
}
