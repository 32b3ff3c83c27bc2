//! One JSON object per line, columns by name.

use lakeward_core::{Error, Result};

use super::Rows;
use super::column::{CellKind, typed};
use crate::collapse::CellSource;
use crate::sequence::DELETE_SIGN;

pub(super) fn encode(rows: &Rows<'_>) -> Result<Vec<u8>> {
    let columns = typed(rows)?;
    let names: Vec<Vec<u8>> = rows
        .columns
        .iter()
        .map(|c| {
            let mut name = Vec::new();
            push_string(rows.name(*c), &mut name)?;
            name.push(b':');
            Ok(name)
        })
        .collect::<Result<_>>()?;
    let mut out = Vec::with_capacity(rows.rows.len() * (names.len() * 16 + 32));
    for row in rows.rows {
        out.push(b'{');
        let mut first = true;
        for (at, column) in rows.columns.iter().enumerate() {
            let CellSource::At { batch, row } = row.cell(*column) else { continue };
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(&names[at]);
            let (batch, row) = (batch as usize, row as usize);
            let cell = &columns[batch][at];
            let start = out.len();
            let kind = cell
                .push(row, &mut out)
                .map_err(|e| e.with("column", &rows.schema.columns[*column].name))?;
            match kind {
                CellKind::Null => out.extend_from_slice(b"null"),
                CellKind::Bare => {}
                CellKind::Plain => {
                    out.insert(start, b'"');
                    out.push(b'"');
                }
                CellKind::Text => push_string(cell.as_text(row).unwrap_or_default(), &mut out)?,
            }
        }
        if !row.deletes {
            for (name, text) in rows.constants {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                push_string(name, &mut out)?;
                out.push(b':');
                match text {
                    Some(text) => push_string(text, &mut out)?,
                    None => out.extend_from_slice(b"null"),
                }
            }
        }
        if rows.hidden.delete_sign {
            let sign: &[u8] = if row.deletes { b"\":1" } else { b"\":0" };
            out.extend_from_slice(if first { b"\"" } else { b",\"" });
            first = false;
            out.extend_from_slice(DELETE_SIGN.as_bytes());
            out.extend_from_slice(sign);
        }
        if let Some(name) = rows.hidden.sequence {
            out.extend_from_slice(if first { b"\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
            out.extend_from_slice(itoa::Buffer::new().format(row.sequence).as_bytes());
            out.push(b'"');
        }
        out.extend_from_slice(b"}\n");
    }
    Ok(out)
}

fn push_string(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text)
        .map_err(|e| Error::bug("could not write a JSON string").with_source(e))
}
