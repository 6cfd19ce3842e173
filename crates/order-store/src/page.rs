//! Pages of lists. Rows that can't be read are left out and counted, and a page goes on past them.

use crate::error::Error;
use crate::rows::{Checked, sort_out};

/// Something that a list consists of.
pub trait Listed {
    /// Its place in the list.
    type Cursor;

    /// Where it is.
    fn cursor(&self) -> Self::Cursor;
}

/// Where a page begins.
///
/// What can't be read may have no place that could be named, so that a place is that of a readable
/// item and the number of rows behind it that were passed over. Between two pages that number could
/// only mislead if one of those damaged rows were deleted, which nothing here does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<C> {
    /// The last readable item before the page; absent at the beginning of the list.
    pub after: Option<C>,
    /// Rows behind that item that were passed over.
    pub passed: u32,
}

impl<C> Place<C> {
    /// The beginning of a list.
    pub const START: Self = Self {
        after: None,
        passed: 0,
    };

    /// Right behind an item.
    pub const fn after(item: C) -> Self {
        Self {
            after: Some(item),
            passed: 0,
        }
    }
}

impl<C> Default for Place<C> {
    fn default() -> Self {
        Self::START
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// Rows of this page that can't be read.
    pub unreadable: u32,
    /// Where the next page begins, if there may be one.
    pub next: Option<Place<C>>,
}

/// How many rows a page's statement fetches: one more than the page has, which shows whether another page follows.
pub(crate) fn fetch(limit: u32) -> i64 {
    i64::from(limit) + 1
}

/// Makes a page of at most `limit` rows that were fetched from a place on.
pub(crate) fn page<T: Listed<Cursor: Clone>>(
    mut rows: Vec<Checked<T>>,
    from: &Place<T::Cursor>,
    limit: u32,
) -> (Page<T, T::Cursor>, Vec<Error>) {
    let fits = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > fits;
    rows.truncate(fits);
    let behind = rows.iter().rev().take_while(|row| row.0.is_err()).count();
    let behind = u32::try_from(behind).unwrap_or(u32::MAX);
    let (items, unreadable) = sort_out(rows);
    let next = match items.last() {
        Some(last) => Place {
            after: Some(last.cursor()),
            passed: behind,
        },
        None => Place {
            after: from.after.clone(),
            passed: from.passed.saturating_add(behind),
        },
    };
    let page = Page {
        items,
        unreadable: u32::try_from(unreadable.len()).unwrap_or(u32::MAX),
        next: Some(next).filter(|_| more),
    };
    (page, unreadable)
}
