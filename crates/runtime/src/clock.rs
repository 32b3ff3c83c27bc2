//! The system's clock, for all who may only read the clock they are given.

use std::time::{SystemTime, UNIX_EPOCH};

use lakeward_core::Clock;

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // A clock before 1970 is wrong anyway; zero keeps differences sane.
            Err(_) => 0,
        }
    }
}
