//! Panics that a test asks for, to see what becomes of a job. Not in a release: only with debug assertions.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The folder in which a test leaves its wishes.
const VARIABLE: &str = "LAKEWARD_PANICS";

/// Panics once when the folder has a file of this name.
pub(crate) fn panic_at(place: &str) {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return;
    }
    let folder = FOLDER.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    if let Some(folder) = folder
        && std::fs::remove_file(folder.join(place)).is_ok()
    {
        panic!("planted at {place}");
    }
}
