//! What both probes answer.

use serde::Serialize;
use utoipa::ToSchema;

use crate::health::Health;

/// Whether traffic is welcome, and why not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Probe {
    status: Readiness,
    checks: Checks,
}

#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Readiness {
    Ready,
    NotReady,
}

/// What the service depends on.
#[derive(Debug, Serialize, ToSchema)]
struct Checks {
    database: CheckState,
    broker: CheckState,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Up,
    Down,
}

impl Probe {
    pub(crate) fn of(health: &Health) -> Self {
        let state = |up| if up { CheckState::Up } else { CheckState::Down };
        Self {
            status: if health.ready() {
                Readiness::Ready
            } else {
                Readiness::NotReady
            },
            checks: Checks {
                database: state(health.database_up()),
                broker: state(health.broker_up()),
            },
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status == Readiness::Ready
    }
}
