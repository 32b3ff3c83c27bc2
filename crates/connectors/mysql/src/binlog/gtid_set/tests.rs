//! GTID sets against a model made of plain numbers.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn set(text: &str) -> MySqlGtidSet {
    text.parse().expect("a set")
}

#[test]
fn mysql_sets_print_as_the_server_does() {
    for (text, printed) in [
        ("", ""),
        (&format!("{A}:5"), &*format!("{A}:5")),
        (&format!("{A}:1-3:4-7"), &format!("{A}:1-7")),
        (&format!("{}:11-18 ,\n {A}:1", A.to_uppercase()), &format!("{A}:1:11-18")),
        (&format!("{A}:1-3:Blue:2:9-10,{A}:red:1"), &format!("{A}:1-3:blue:2:9-10:red:1")),
    ] {
        assert_eq!(set(text).to_string(), printed);
        assert_eq!(set(printed), set(text));
        assert_eq!(MySqlGtidSet::decode(&set(text).encode()).expect("own form"), set(text));
    }
    for bad in [
        "x",
        "1-2-3",
        &format!("{A}:0"),
        &format!("{A}:1-x"),
        &format!("{A}::"),
        &format!("{A}:9-tag"),
    ] {
        assert!(bad.parse::<MySqlGtidSet>().is_err(), "{bad}");
    }
}

#[test]
fn tagged_and_untagged_are_apart() {
    let mut have = set(&format!("{A}:1-9"));
    assert!(!have.contains_set(&set(&format!("{A}:blue:3"))));
    have.union(&set(&format!("{A}:blue:1-5")));
    assert!(have.contains_set(&set(&format!("{A}:blue:3"))));
    assert_eq!(have.minus(&set(&format!("{A}:2-3:blue:5"))), set(&format!("{A}:1:4-9:blue:1-4")));
}

#[test]
fn mariadb_positions() {
    let mut at: MariaDbGtidSet = "0-1-10, 3-7-2,0-2-12".parse().expect("a set");
    assert_eq!(at.to_string(), "0-2-12,3-7-2");
    assert!(at.contains("0-1-11".parse().expect("a gtid")));
    assert!(!at.contains("0-1-13".parse().expect("a gtid")));
    assert!(!at.contains("9-1-1".parse().expect("a gtid")));
    at.add("0-1-13".parse().expect("a gtid"));
    assert_eq!(at.to_string(), "0-1-13,3-7-2");
    assert!(at.contains_set(&"0-2-12".parse().expect("a set")));
    for bad in ["0-1", "0-1-2-3", "a-b-c", "-1-2-3", "0-1-+3"] {
        assert!(bad.parse::<MariaDbGtidSet>().is_err(), "{bad}");
    }
}

fn build(numbers: &BTreeSet<u64>) -> MySqlGtidSet {
    let source = [7; 16];
    let mut built = MySqlGtidSet::default();
    // In an order that makes intervals grow, join and appear between.
    for number in
        numbers.iter().filter(|n| *n % 2 == 1).chain(numbers.iter().filter(|n| *n % 2 == 0))
    {
        built.add(&MySqlGtid { source, tag: Tag::default(), number: *number });
    }
    built
}

proptest! {
    #[test]
    fn sets_behave_as_sets(
        a in proptest::collection::btree_set(1u64..60, 0..40),
        b in proptest::collection::btree_set(1u64..60, 0..40),
    ) {
        let (left, right) = (build(&a), build(&b));
        prop_assert_eq!(left.contains_set(&right), b.is_subset(&a));
        prop_assert_eq!(left.minus(&right), build(&a.difference(&b).copied().collect()));
        let mut both = left.clone();
        both.union(&right);
        prop_assert_eq!(&both, &build(&a.union(&b).copied().collect()));
        prop_assert_eq!(both.to_string().parse::<MySqlGtidSet>().expect("own text"), both);
    }

    #[test]
    fn any_bytes_and_text_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "[0-9a-f:,-]{0,60}") {
        let _ = MySqlGtidSet::decode(&bytes);
        let _ = text.parse::<MySqlGtidSet>();
        let _ = text.parse::<MariaDbGtidSet>();
    }
}
