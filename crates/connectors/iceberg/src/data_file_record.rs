//! An Iceberg data file's manifest entry as plain serde data, so that it can stand in checkpoint state.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PrimitiveLiteral,
    PrimitiveType, Struct,
};
use lakeward_core::{Error, ErrorKind, Result, ResultExt};

/// A finished data file and what only its writer knows about it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDataFile {
    pub file: DataFile,
    /// The spec that its partition tuple belongs to; [`DataFile`] does not tell.
    pub spec_id: i32,
    /// The schema that it was written under.
    pub schema_id: i32,
}

/// The serde form of [`NewDataFile`]. Maps that are empty are left out.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct DataFileRecord {
    path: String,
    format: DataFileFormat,
    rows: u64,
    size_bytes: u64,
    spec_id: i32,
    schema_id: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    partition: Vec<Option<PartitionValue>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    column_sizes: BTreeMap<i32, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    value_counts: BTreeMap<i32, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    null_counts: BTreeMap<i32, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    nan_counts: BTreeMap<i32, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lower: BTreeMap<i32, Bound>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    upper: BTreeMap<i32, Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split_offsets: Option<Vec<i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sort_order_id: Option<i32>,
}

/// A bound with its type and Iceberg's binary single-value form.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Bound(PrimitiveType, String);

/// One value of a partition tuple. 128-bit integers and floats travel as text: JSON numbers would not keep them.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
enum PartitionValue {
    Boolean(bool),
    Int(i32),
    Long(i64),
    FloatBits(u32),
    DoubleBits(u64),
    String(String),
    Binary(String),
    Int128(String),
    UInt128(String),
}

impl DataFileRecord {
    pub(crate) fn from_file(new: &NewDataFile) -> Result<Self> {
        let file = &new.file;
        if file.content_type() != DataContentType::Data {
            return Err(Error::bug("only data files travel in a committable")
                .with("file", file.file_path()));
        }
        let partition = file
            .partition()
            .iter()
            .map(|value| value.map(PartitionValue::from_literal).transpose())
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            path: file.file_path().to_string(),
            format: file.file_format(),
            rows: file.record_count(),
            size_bytes: file.file_size_in_bytes(),
            spec_id: new.spec_id,
            schema_id: new.schema_id,
            partition,
            column_sizes: sorted(file.column_sizes()),
            value_counts: sorted(file.value_counts()),
            null_counts: sorted(file.null_value_counts()),
            nan_counts: sorted(file.nan_value_counts()),
            lower: bounds(file.lower_bounds())?,
            upper: bounds(file.upper_bounds())?,
            split_offsets: file.split_offsets().map(<[i64]>::to_vec),
            sort_order_id: file.sort_order_id(),
        })
    }

    pub(crate) fn into_file(self) -> Result<NewDataFile> {
        let partition = self
            .partition
            .into_iter()
            .map(|value| value.map(PartitionValue::into_literal).transpose())
            .collect::<Result<Vec<_>>>()?;
        let mut builder = DataFileBuilder::default();
        builder
            .content(DataContentType::Data)
            .file_path(self.path)
            .file_format(self.format)
            .partition(Struct::from_iter(partition))
            .record_count(self.rows)
            .file_size_in_bytes(self.size_bytes)
            .partition_spec_id(self.spec_id)
            .column_sizes(self.column_sizes.into_iter().collect())
            .value_counts(self.value_counts.into_iter().collect())
            .null_value_counts(self.null_counts.into_iter().collect())
            .nan_value_counts(self.nan_counts.into_iter().collect())
            .lower_bounds(datums(self.lower)?)
            .upper_bounds(datums(self.upper)?)
            .split_offsets(self.split_offsets);
        if let Some(id) = self.sort_order_id {
            builder.sort_order_id(id);
        }
        let file = builder.build().or_err(ErrorKind::Bug, "a data file's record is incomplete")?;
        Ok(NewDataFile { file, spec_id: self.spec_id, schema_id: self.schema_id })
    }
}

impl PartitionValue {
    fn from_literal(value: &Literal) -> Result<Self> {
        let primitive = value
            .as_primitive_literal()
            .ok_or_else(|| Error::bug("a partition value is not a primitive"))?;
        Ok(match primitive {
            PrimitiveLiteral::Boolean(v) => Self::Boolean(v),
            PrimitiveLiteral::Int(v) => Self::Int(v),
            PrimitiveLiteral::Long(v) => Self::Long(v),
            PrimitiveLiteral::Float(v) => Self::FloatBits(v.to_bits()),
            PrimitiveLiteral::Double(v) => Self::DoubleBits(v.to_bits()),
            PrimitiveLiteral::String(v) => Self::String(v),
            PrimitiveLiteral::Binary(v) => Self::Binary(BASE64.encode(v)),
            PrimitiveLiteral::Int128(v) => Self::Int128(v.to_string()),
            PrimitiveLiteral::UInt128(v) => Self::UInt128(v.to_string()),
            PrimitiveLiteral::AboveMax | PrimitiveLiteral::BelowMin => {
                return Err(Error::bug("a partition value is out of its type's range"));
            }
        })
    }

    fn into_literal(self) -> Result<Literal> {
        const DAMAGED: &str = "a partition value in the checkpoint is damaged";
        Ok(Literal::Primitive(match self {
            Self::Boolean(v) => PrimitiveLiteral::Boolean(v),
            Self::Int(v) => PrimitiveLiteral::Int(v),
            Self::Long(v) => PrimitiveLiteral::Long(v),
            Self::FloatBits(v) => PrimitiveLiteral::Float(f32::from_bits(v).into()),
            Self::DoubleBits(v) => PrimitiveLiteral::Double(f64::from_bits(v).into()),
            Self::String(v) => PrimitiveLiteral::String(v),
            Self::Binary(v) => {
                PrimitiveLiteral::Binary(BASE64.decode(v).or_err(ErrorKind::Bug, DAMAGED)?)
            }
            Self::Int128(v) => PrimitiveLiteral::Int128(v.parse().or_err(ErrorKind::Bug, DAMAGED)?),
            Self::UInt128(v) => {
                PrimitiveLiteral::UInt128(v.parse().or_err(ErrorKind::Bug, DAMAGED)?)
            }
        }))
    }
}

fn sorted(map: &std::collections::HashMap<i32, u64>) -> BTreeMap<i32, u64> {
    map.iter().map(|(k, v)| (*k, *v)).collect()
}

fn bounds(map: &std::collections::HashMap<i32, Datum>) -> Result<BTreeMap<i32, Bound>> {
    map.iter()
        .map(|(id, datum)| {
            let bytes = datum.to_bytes().or_err(ErrorKind::Bug, "could not encode a bound")?;
            Ok((*id, Bound(datum.data_type().clone(), BASE64.encode(&bytes[..]))))
        })
        .collect()
}

fn datums(map: BTreeMap<i32, Bound>) -> Result<std::collections::HashMap<i32, Datum>> {
    const DAMAGED: &str = "a column bound in the checkpoint is damaged";
    map.into_iter()
        .map(|(id, Bound(data_type, text))| {
            let bytes = BASE64.decode(text).or_err(ErrorKind::Bug, DAMAGED)?;
            let datum = Datum::try_from_bytes(&bytes, data_type).or_err(ErrorKind::Bug, DAMAGED)?;
            Ok((id, datum))
        })
        .collect()
}
