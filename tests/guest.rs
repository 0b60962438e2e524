//! The tests that boot User-Mode Linux.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "several modules share a file of helpers")]

mod tools;

mod agreement;
mod array_members;
mod cuts;
mod devices;
mod domains;
mod fixes;
mod guests;
mod hostile_guest;
mod lab;
mod lab_files;
mod real;
mod restore;
mod stack_verdicts;
mod stacks;
mod volume_parts;
