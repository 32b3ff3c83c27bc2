//! What goes wrong around a pipeline: purged logs, other writers, lost state, cut networks. The real binary against real
//! servers, one test for each fault.
