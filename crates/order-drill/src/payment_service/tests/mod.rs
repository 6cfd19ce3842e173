//! The mock over both ways in, and that it notices whoever asks it wrongly.

mod replies;
mod script;
