//! `sink.properties.compress_type`.

use std::io::Write;

use lakeward_core::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    /// Doris' `lz4` is the frame format.
    Lz4,
    Zstd,
}

pub(crate) fn compress(body: Vec<u8>, compression: Compression) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::bug("could not compress a load").with_source(e);
    match compression {
        Compression::None => Ok(body),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&body).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(&body).map_err(failed)?;
            encoder.finish().map_err(|e| failed(e.into()))
        }
        Compression::Zstd => zstd::bulk::compress(&body, 1).map_err(failed),
    }
}
