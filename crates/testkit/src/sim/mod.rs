//! Seeded simulation of operators, store and catalog in one thread.
