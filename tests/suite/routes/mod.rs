//! Tests of the ways in, by their URLs.

mod executor;
