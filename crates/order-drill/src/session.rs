//! What a drill works with: the plan, the service, the broker, and the payment service if the drill plays it.

use std::time::Duration;

use order_payment_mock::{Mock, Script};
use tokio::time::timeout;

use crate::api::Api;
use crate::broker::Broker;
use crate::metrics::Metrics;
use crate::truth::Truth;
use crate::{Error, PaymentService, Plan, Progress, RunOptions};

/// A server that doesn't answer by then isn't running. Later interruptions are waited for until the deadline.
const REACH_WITHIN: Duration = Duration::from_secs(30);

/// A plan and the service it is thrown at.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) plan: &'a Plan,
    pub(crate) progress: &'a Progress,
    pub(crate) api: Api,
    pub(crate) broker: Broker<'a>,
    pub(crate) mock: Option<Mock>,
    pub(crate) truth: Option<Truth>,
}

impl<'a> Session<'a> {
    /// Connects to service and broker. As the payment service, it answers with what has happened of the plan.
    pub(crate) async fn open(
        options: &'a RunOptions,
        plan: &'a Plan,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        let truth = options.payment_service.as_ref().map(|_| Truth::of(plan));
        let script = truth.as_ref().map(Truth::script).unwrap_or_default();
        let session = Self::open_with(options, plan, progress, script).await?;
        Ok(Self { truth, ..session })
    }

    /// Connects to service and broker. As the payment service, it answers by this script.
    pub(crate) async fn open_with(
        options: &'a RunOptions,
        plan: &'a Plan,
        progress: &'a Progress,
        script: Script,
    ) -> Result<Self, Error> {
        progress.enter("reaching service and broker", 0);
        let api = Api::new(options)?;
        api.reach(REACH_WITHIN).await?;
        Ok(Self {
            options,
            plan,
            progress,
            api,
            broker: Broker::connect(options, REACH_WITHIN).await?,
            mock: payment_service(options, script).await?,
            truth: None,
        })
    }

    /// The service's counters, if they are to be compared.
    pub(crate) async fn read_counters(&self) -> Result<Option<Metrics>, Error> {
        if !self.options.counters {
            return Ok(None);
        }
        let answer = self.api.get("/metrics").await;
        if answer.status != 200 {
            return Err(answer.unusable("GET /metrics"));
        }
        Ok(Some(Metrics::parse(&String::from_utf8_lossy(&answer.body))))
    }

    /// Waits until the service's consumer has acked everything.
    pub(crate) async fn wait_until_acked(&self) -> Result<(), Error> {
        // scripts/endure reads the first word of the progress.
        self.progress.enter("settling", 0);
        self.broker
            .wait_until_acked(|left| self.progress.left(left))
            .await
    }
}

/// Plays the payment service, if the options want it.
async fn payment_service(options: &RunOptions, script: Script) -> Result<Option<Mock>, Error> {
    let Some(way) = &options.payment_service else {
        return Ok(None);
    };
    let mut mock = Mock::new(script);
    match way {
        PaymentService::Nats { subject } => mock.serve_nats(&options.nats, subject).await,
        PaymentService::Http { address } => mock.serve_http(*address).await.map(drop),
    }
    .map_err(Error::because("cannot play the payment service"))?;
    Ok(Some(mock))
}

/// Does the work within the options' deadline.
pub(crate) async fn within<T>(
    options: &RunOptions,
    progress: &Progress,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(options.deadline, work).await.unwrap_or_else(|_| {
        Err(Error::new(format!(
            "the deadline of {:?} passed while {}; --deadline allows more time",
            options.deadline,
            progress.doing()
        )))
    })
}
