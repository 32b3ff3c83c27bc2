//! SQL over the lake (DataFusion).
