//! From positions and files to a snapshot: the commit path of one table.

pub(crate) mod deletes;
pub(crate) mod expiry;
pub(crate) mod live;
pub(crate) mod manifests;
pub(crate) mod remap;
pub(crate) mod snapshot;
pub(crate) mod summary;
pub(crate) mod work;
