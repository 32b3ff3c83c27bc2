//! MariaDB to Doris with the real binary: snapshot, changes and DDL, kills, lost answers, expired transactions, a frontend
//! that goes away. What Doris shows is compared with what the server holds.

mod faults;
mod scene;
mod streaming;
