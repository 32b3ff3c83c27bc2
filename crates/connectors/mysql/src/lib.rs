//! MySQL and MariaDB as a source: snapshot, binlog and DDL.
