//! Real servers as child processes, fault injection, simulation and golden scenarios. For tests only.
