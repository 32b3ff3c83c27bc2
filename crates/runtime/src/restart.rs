//! Whether and when a failed attempt is followed by another one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Flink's restart strategies, by Flink's names.
#[derive(Debug, Clone, PartialEq)]
pub enum RestartStrategy {
    ExponentialDelay {
        initial: Duration,
        max: Duration,
        factor: f64,
        /// A delay varies by this part of itself, so that pipelines that failed together do not return together.
        jitter: f64,
        /// An attempt that lasted this long counts as healthy: the next delay is the initial one.
        reset_after: Duration,
    },
    FixedDelay {
        /// Restarts without a healthy attempt in between; `None` for no limit.
        attempts: Option<u32>,
        delay: Duration,
    },
    None,
}

impl Default for RestartStrategy {
    fn default() -> Self {
        RestartStrategy::ExponentialDelay {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            factor: 2.0,
            jitter: 0.1,
            reset_after: Duration::from_secs(300),
        }
    }
}

/// A fixed delay has no time of its own after which an attempt counts as healthy.
const FIXED_RESET_AFTER: Duration = Duration::from_secs(300);

/// Where a job is in its strategy.
pub(crate) struct Restarts {
    strategy: RestartStrategy,
    /// Failures since the last healthy attempt.
    failures: u32,
    random: u64,
}

impl Restarts {
    /// `seed` makes the jitter repeatable.
    pub(crate) fn new(strategy: RestartStrategy, seed: Option<u64>) -> Self {
        let random = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()) | 1;
        Self { strategy, failures: 0, random }
    }

    /// The delay before the next attempt; `None` when there is to be none. `lasted` is how long the failed one ran.
    pub(crate) fn after_failure(&mut self, lasted: Duration) -> Option<Duration> {
        let reset_after = match &self.strategy {
            RestartStrategy::ExponentialDelay { reset_after, .. } => *reset_after,
            RestartStrategy::FixedDelay { .. } | RestartStrategy::None => FIXED_RESET_AFTER,
        };
        if lasted >= reset_after {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        match self.strategy {
            RestartStrategy::None => None,
            RestartStrategy::FixedDelay { attempts, delay } => {
                attempts.is_none_or(|most| self.failures <= most).then_some(delay)
            }
            RestartStrategy::ExponentialDelay { initial, max, factor, jitter, .. } => {
                let exponent = i32::try_from(self.failures - 1).unwrap_or(i32::MAX);
                let plain = initial.as_secs_f64() * factor.max(1.0).powi(exponent);
                let seconds = plain.min(max.as_secs_f64());
                let spread = 1.0 + jitter.clamp(0.0, 1.0) * (2.0 * self.random() - 1.0);
                Some(Duration::from_secs_f64(seconds * spread))
            }
        }
    }

    /// Uniform in 0..1 (xorshift).
    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(2);

    #[test]
    fn exponential_delay_grows_to_its_limit_and_resets_after_health() {
        let mut restarts = Restarts::new(RestartStrategy::default(), Some(3));
        let mut delays = Vec::new();
        for _ in 0..2_000 {
            delays.push(restarts.after_failure(SHORT).expect("a delay").as_secs_f64());
        }
        for (i, expected) in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0].into_iter().enumerate() {
            let within = expected * 0.9..=expected * 1.1;
            assert!(within.contains(&delays[i]), "delay {i} is {}", delays[i]);
        }
        assert!(delays[100..].iter().all(|d| (54.0..=66.0).contains(d)));
        assert!(delays[100..].iter().any(|d| *d < 57.0), "jitter goes down");
        assert!(delays[100..].iter().any(|d| *d > 63.0), "jitter goes up");
        let reset = restarts.after_failure(Duration::from_secs(300)).expect("a delay");
        assert!(reset.as_secs_f64() <= 1.1);
    }

    #[test]
    fn fixed_delay_stops_at_its_limit() {
        let delay = Duration::from_secs(5);
        let strategy = RestartStrategy::FixedDelay { attempts: Some(2), delay };
        let mut restarts = Restarts::new(strategy, Some(1));
        assert_eq!(restarts.after_failure(SHORT), Some(delay));
        assert_eq!(restarts.after_failure(SHORT), Some(delay));
        assert_eq!(restarts.after_failure(SHORT), None);
        assert_eq!(Restarts::new(RestartStrategy::None, None).after_failure(SHORT), None);
    }
}
