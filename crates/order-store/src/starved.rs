//! Why a pool is without connections.

/// Why a pool can't open a connection. As a sentence it names nothing that a stranger must not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Starved {
    /// The server has too many clients already.
    #[error("the database accepts no more connections: it has too many clients")]
    TooManyClients,
    /// It can't be reached, or refuses them for another reason.
    #[error("no connection to the database can be opened")]
    Refused,
}

impl Starved {
    pub(crate) fn because_of(error: &sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            Some("53300") => Self::TooManyClients,
            _ => Self::Refused,
        }
    }
}
