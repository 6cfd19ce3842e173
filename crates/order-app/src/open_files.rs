//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of this process as far as the system allows, and returns what it is then. The
/// usual soft limit (1,024) exists for programs that use `select`.
pub(crate) fn raise_to(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current else {
        return usize::MAX;
    };
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    let raised = wanted.min(maximum.unwrap_or(u64::MAX));
    if raised <= current {
        return usize::try_from(current).unwrap_or(usize::MAX);
    }
    let limit = Rlimit {
        current: Some(raised),
        maximum,
    };
    let now = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(
                %error,
                "limit of open files not raised: fewer connections can be open at a time"
            );
            current
        }
    };
    usize::try_from(now).unwrap_or(usize::MAX)
}
