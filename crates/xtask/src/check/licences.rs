//! The licences of what is linked in: those that a project under Apache-2.0 may ship.

use super::metadata::Metadata;

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

pub fn check(metadata: &Metadata) -> Vec<String> {
    let mut problems = Vec::new();
    for library in metadata.libraries() {
        let name = format!("{} {}", library.name, library.version);
        match &library.license {
            None => problems.push(format!("{name} names no licence")),
            Some(licence) if !is_allowed(licence) => {
                problems.push(format!("{name} has the licence {licence}"));
            }
            Some(_) => {}
        }
    }
    problems
}

/// True when the terms can be chosen so that all of them are on the list.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let words: Vec<&str> = expression.split(' ').filter(|w| !w.is_empty()).collect();
    let spaced = words.join(" ").replace('(', "( ").replace(')', " )");
    let mut tokens: Vec<&str> = spaced.split(' ').collect();
    tokens.reverse();
    any_of(&mut tokens) && tokens.is_empty()
}

/// `a OR b`; takes its tokens from the end of the list.
fn any_of(tokens: &mut Vec<&str>) -> bool {
    let mut allowed = all_of(tokens);
    while tokens.last() == Some(&"OR") {
        tokens.pop();
        allowed |= all_of(tokens);
    }
    allowed
}

fn all_of(tokens: &mut Vec<&str>) -> bool {
    let mut allowed = one(tokens);
    while tokens.last() == Some(&"AND") {
        tokens.pop();
        allowed &= one(tokens);
    }
    allowed
}

fn one(tokens: &mut Vec<&str>) -> bool {
    match tokens.pop() {
        Some("(") => {
            let allowed = any_of(tokens);
            tokens.pop() == Some(")") && allowed
        }
        Some(name) if tokens.last() == Some(&"WITH") => {
            tokens.pop();
            let exception = tokens.pop().unwrap_or_default();
            ALLOWED.contains(&format!("{name} WITH {exception}").as_str())
        }
        Some(name) => ALLOWED.contains(&name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 AND ISC",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-2.0", "(MIT AND AGPL-3.0) OR SSPL-1.0", "", "(MIT"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
