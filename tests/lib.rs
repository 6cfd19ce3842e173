//! Tests only: everything is in `it`.
