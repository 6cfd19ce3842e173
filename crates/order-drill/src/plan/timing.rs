//! When things are sent: shuffled within a wave, some in later waves, and some events waves before their order.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// A place in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) wave: u32,
    key: u32,
}

/// Leaves room for events in the wave before their order and in much earlier waves.
pub(super) const WAVES_MIN: u32 = 4;

/// One message in ten is sent in a later wave than its order.
const ASTRAY: f64 = 0.1;
/// One early event in three comes long before its order.
const LONG_BEFORE: f64 = 0.3;

/// The schedule of one case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    waves: u32,
    home: u32,
    created: Slot,
    manner: Manner,
}

/// When the messages of a case are sent, compared with the creation of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// After it, or so close that they may overtake it.
    Usual,
    /// At least the first one is stored before the order is created.
    Early,
    /// All in the wave after it, next to the cancellation.
    Together,
}

impl Timing {
    pub(super) fn draw(
        rng: &mut Xoshiro256PlusPlus,
        home: u32,
        waves: u32,
        manner: Manner,
    ) -> Self {
        let last = waves - 1;
        // A case that needs a later wave can't begin in the last one.
        let home = if manner == Manner::Usual {
            home
        } else {
            home.min(last - 1)
        };
        let wave = match manner {
            Manner::Usual | Manner::Together => home,
            Manner::Early if rng.random_bool(LONG_BEFORE) => (home + 1 + waves / 2).min(last),
            Manner::Early => home + 1,
        };
        let created = Slot {
            wave,
            key: rng.random(),
        };
        Self {
            waves,
            home,
            created,
            manner,
        }
    }

    /// When the order of the case is created.
    pub(super) fn created(&self) -> Slot {
        self.created
    }

    /// When the order of the case is cancelled: among its messages.
    pub(super) fn cancelled(&self, rng: &mut Xoshiro256PlusPlus) -> Slot {
        self.message(rng, 0)
    }

    /// When the nth message of the case is sent.
    pub(super) fn message(&self, rng: &mut Xoshiro256PlusPlus, nth: usize) -> Slot {
        match self.manner {
            Manner::Early if nth == 0 => Slot {
                wave: self.home,
                key: rng.random(),
            },
            Manner::Early => anywhere(rng, self.home, self.waves),
            // Close together, so that neither side always wins.
            Manner::Together => Slot {
                wave: self.home + 1,
                key: self
                    .created
                    .key
                    .saturating_add(rng.random_range(0..1 << 24)),
            },
            Manner::Usual if self.home + 1 < self.waves && rng.random_bool(ASTRAY) => {
                anywhere(rng, self.home + 1, self.waves)
            }
            Manner::Usual => Slot {
                wave: self.home,
                key: rng.random_range(self.created.key..=u32::MAX),
            },
        }
    }
}

/// A slot in any of these waves.
pub(super) fn anywhere(rng: &mut Xoshiro256PlusPlus, from: u32, waves: u32) -> Slot {
    Slot {
        wave: rng.random_range(from..waves),
        key: rng.random(),
    }
}
