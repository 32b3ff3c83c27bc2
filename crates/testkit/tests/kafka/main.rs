//! Change topics of a real Apache Kafka broker into a lake, by the real binary: the cases of `cases/kafka`, and what goes
//! wrong around them.

mod cases;
mod faults;
mod scene;
mod security;
