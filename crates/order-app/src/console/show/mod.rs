//! How values are displayed. The types here write HTML themselves and escape what they contain.

pub(super) mod about;
pub(super) mod chip;
pub(super) mod moment;
pub(super) mod money;
pub(super) mod text;
