//! Tests of JSON: printing, damaged documents, partial updates.

use super::*;
use proptest::prelude::*;

fn double(value: f64) -> String {
    let mut text = Vec::new();
    print::push_double(value, &mut text).expect("finite");
    String::from_utf8(text).expect("ascii")
}

proptest! {
    #[test]
    fn doubles_keep_their_value(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        if value.is_finite() {
            let text = double(value);
            prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), bits);
            prop_assert!(text.contains(['.', 'e']), "{} would be read as an integer", text);
        }
    }

    #[test]
    fn any_bytes_are_survived(
        base in proptest::collection::vec(any::<u8>(), 0..60),
        changes in proptest::collection::vec(any::<u8>(), 0..40),
        kind in 0u8..16,
    ) {
        let mut document = vec![kind];
        document.extend(base);
        let _ = append_text(&document, &mut Vec::new());
        let _ = append_changed(&document, &changes, &mut Vec::new());
    }
}

/// An array of itself, again and again: each level is an offset back to the first byte.
#[test]
fn endless_nesting_ends() {
    let document = [2, 1, 0, 7, 0, 2, 0, 0];
    assert!(append_text(&document, &mut Vec::new()).is_err());
}

#[test]
fn an_empty_document_is_null() {
    let mut text = Vec::new();
    append_text(&[], &mut text).expect("a document");
    assert_eq!(text, b"null");
}
