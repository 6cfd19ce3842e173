//! The pages, called in process on a SQLite file of their own.

mod browser;
mod exceptions;
mod sign_in;
