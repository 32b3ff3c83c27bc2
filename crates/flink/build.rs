//! The library must not be unmapped: its threads outlive the class loader that loaded it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
