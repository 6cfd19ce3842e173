//! The mock over both transports, and what it records of wrong questions.

mod replies;
mod script;
