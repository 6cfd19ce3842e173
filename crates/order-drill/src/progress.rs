//! How far a drill is, for whoever watches it. The drill only counts; printing is the watcher's business.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Looking for service and broker.
    Reaching,
    /// Creating orders alone.
    Creating,
    /// Creating orders and publishing messages.
    Throwing,
    /// Waiting for the consumer to become idle.
    Settling,
    /// Waiting until what was lost is healed.
    Healing,
    /// Asking about every order.
    Comparing,
    /// Looking again at what differed.
    LookingAgain,
    /// Reading exceptions and dead letters.
    ReadingOps,
    /// Reading the outbound stream.
    ReadingEvents,
}

impl Phase {
    const ALL: [Self; 9] = [
        Self::Reaching,
        Self::Creating,
        Self::Throwing,
        Self::Settling,
        Self::Healing,
        Self::Comparing,
        Self::LookingAgain,
        Self::ReadingOps,
        Self::ReadingEvents,
    ];

    /// As a sentence goes on: "… while throwing".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reaching => "reaching service and broker",
            Self::Creating => "creating orders",
            Self::Throwing => "throwing",
            Self::Settling => "settling",
            Self::Healing => "waiting until what was lost is healed",
            Self::Comparing => "comparing",
            Self::LookingAgain => "looking again at what differed",
            Self::ReadingOps => "reading exceptions and dead letters",
            Self::ReadingEvents => "reading the outbound stream",
        }
    }
}

/// Counters of the phase in hand; written by the drill, read by a watcher at any time.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    pub(crate) fn enter(&self, phase: Phase, total: u64) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remaining(&self, left: u64) {
        self.total.store(left, Ordering::Relaxed);
    }

    /// What is being done.
    pub fn phase(&self) -> Phase {
        let index = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(index).copied().unwrap_or(Phase::Reaching)
    }

    /// Done and total; while settling, the total is what is left.
    pub fn counts(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }
}
