//! Nothing: the programs are in `main.rs` and `lab.rs`. Without a library, cargo would not turn on the features that their
//! tests need.
