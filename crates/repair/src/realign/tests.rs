//! Places and orders, compared with all that are possible.

mod random;
