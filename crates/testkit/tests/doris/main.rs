//! The stand-in for Doris, and with `LAKEWARD_TEST_DORIS_URL` a real cluster: what both must do alike, and on the
//! stand-in the faults.

mod client;
mod ddl;
mod faults;
mod foreign;
mod loads;
mod two_phase;
