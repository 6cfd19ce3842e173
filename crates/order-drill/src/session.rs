//! The steps of a drill against one service, each on its own or all in a row.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::api::Api;
use crate::compare::compare;
use crate::counters::{CounterRun, compare_counters, compare_healed};
use crate::events::{self, Follow};
use crate::heal;
use crate::payment_service::{Asked, Mock, Script, Truth};
use crate::progress::{Phase, Progress};
use crate::report::{Readings, Report};
use crate::throw::{self, Hand, Thrown};
use crate::{
    Backlog, Broker, Comparison, Error, Metrics, PaymentService, Plan, RunFigures, RunOptions,
    Verdict, ops,
};

/// Whoever doesn't answer by then isn't there; later absences are waited for until the deadline.
const REACH_WITHIN: Duration = Duration::from_secs(30);

/// A plan and the service it is thrown at.
#[derive(Debug)]
pub struct Session<'a> {
    options: &'a RunOptions,
    plan: &'a Plan,
    progress: &'a Progress,
    api: Api,
    broker: Broker,
    payment_service: Option<Mock>,
    truth: Option<Truth>,
}

/// Throws the plan, waits until all is consumed, and compares; within the options' deadline.
pub async fn run(options: &RunOptions, plan: &Plan, progress: &Progress) -> Result<Report, Error> {
    let begun = Instant::now();
    let all = Box::pin(async {
        let session = Session::open(options, plan, progress).await?;
        let before = session.read_counters().await?;
        let thrown = session.throw().await?;
        session.settle().await?;
        session.heal().await;
        session.verify(Some(&thrown), before).await
    });
    let mut report = within(options, progress, all).await?;
    report.duration = begun.elapsed();
    Ok(report)
}

/// Only throws; the same plan can be verified later.
pub async fn throw(
    options: &RunOptions,
    plan: &Plan,
    progress: &Progress,
) -> Result<Thrown, Error> {
    let all = Box::pin(async { Session::open(options, plan, progress).await?.throw().await });
    within(options, progress, all).await
}

/// Waits and compares; for a plan that was thrown before.
pub async fn verify(
    options: &RunOptions,
    plan: &Plan,
    progress: &Progress,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let all = Box::pin(async {
        let session = Session::open(options, plan, progress).await?;
        session.everything_happens();
        session.settle().await?;
        session.heal().await;
        session.verify(None, None).await
    });
    let mut report = within(options, progress, all).await?;
    report.duration = begun.elapsed();
    Ok(report)
}

pub(crate) async fn within<T>(
    options: &RunOptions,
    progress: &Progress,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(options.deadline, work).await.unwrap_or_else(|_| {
        Err(Error::Deadline {
            doing: progress.phase().as_str(),
            after: options.deadline,
        })
    })
}

/// Plays the payment service, if the options want it.
async fn payment_service(options: &RunOptions, script: Script) -> Result<Option<Mock>, Error> {
    let Some(way) = &options.payment_service else {
        return Ok(None);
    };
    let mut mock = Mock::new(script);
    match way {
        PaymentService::Nats { subject } => mock.serve_nats(&options.nats, subject).await,
        PaymentService::Http { address } => mock.serve_http(*address).await.map(|_| ()),
    }
    .map_err(Error::PaymentService)?;
    Ok(Some(mock))
}

impl<'a> Session<'a> {
    /// Connects to service and broker; as the payment service, answers by what happens of the plan.
    pub async fn open(
        options: &'a RunOptions,
        plan: &'a Plan,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        let truth = options.payment_service.as_ref().map(|_| Truth::of(plan));
        let script = truth.as_ref().map(Truth::script).unwrap_or_default();
        let session = Self::open_with(options, plan, progress, script).await?;
        Ok(Self { truth, ..session })
    }

    /// Connects to service and broker; as the payment service, answers by this script.
    pub(crate) async fn open_with(
        options: &'a RunOptions,
        plan: &'a Plan,
        progress: &'a Progress,
        script: Script,
    ) -> Result<Self, Error> {
        progress.enter(Phase::Reaching, 0);
        let api = Api::new(options)?;
        api.reach(REACH_WITHIN).await?;
        let broker = Broker::connect(options).await?;
        broker.reach(&options.nats, REACH_WITHIN).await?;
        Ok(Self {
            options,
            plan,
            progress,
            api,
            broker,
            payment_service: payment_service(options, script).await?,
            truth: None,
        })
    }

    /// Carries out single steps.
    pub(crate) fn hand(&self, pay_by: Option<&'static str>) -> Hand<'_> {
        Hand {
            plan: self.plan,
            api: &self.api,
            broker: &self.broker,
            truth: self.truth.as_ref(),
            subject: &self.options.names.inbound_subject,
            pay_by,
        }
    }

    /// Starts a run of the reconciliation; says where it can be looked at.
    pub(crate) async fn start_run(&self, path: &str) -> Result<String, Error> {
        let answer = self.api.post(path, "{}".to_owned()).await;
        match answer.location {
            Some(location) if answer.status == 202 => Ok(location),
            _ => Err(Error::Endpoint {
                path: format!("POST {path}"),
                status: answer.status,
            }),
        }
    }

    /// What a run says of itself.
    pub(crate) async fn run_figures(&self, path: &str) -> Result<RunFigures, Error> {
        let answer = self.api.get(path).await;
        let fault = || Error::Endpoint {
            path: format!("GET {path}"),
            status: answer.status,
        };
        serde_json::from_slice(&answer.body).map_err(|_| fault())
    }

    /// The payment service that the drill plays.
    pub(crate) fn mock(&self) -> Option<&Mock> {
        self.payment_service.as_ref()
    }

    /// The service's counters, if they are to be compared.
    pub async fn read_counters(&self) -> Result<Option<Metrics>, Error> {
        if !self.options.counters {
            return Ok(None);
        }
        let answer = self.api.get("/metrics").await;
        if answer.status != 200 {
            return Err(Error::Endpoint {
                path: "GET /metrics".to_owned(),
                status: answer.status,
            });
        }
        Ok(Some(Metrics::parse(&String::from_utf8_lossy(&answer.body))))
    }

    /// Creates the orders and publishes the messages.
    pub async fn throw(&self) -> Result<Thrown, Error> {
        throw::throw(
            self.plan,
            self.options,
            &self.api,
            &self.broker,
            self.truth.as_ref(),
            self.progress,
        )
        .await
    }

    /// Waits until the service's consumer has nothing left to do.
    pub async fn settle(&self) -> Result<Backlog, Error> {
        self.progress.enter(Phase::Settling, 0);
        let watch = |left: Backlog| self.progress.remaining(left.pending + left.unacked);
        self.broker
            .settle(&self.options.names, self.options.settle, watch)
            .await
    }

    /// Waits until a reconciliation has found what was lost, within its time.
    pub async fn heal(&self) {
        heal::wait(self.plan, self.options, &self.api, self.progress).await;
    }

    /// Whatever the plan holds was thrown before.
    fn everything_happens(&self) {
        if let Some(truth) = &self.truth {
            truth.everything_happens();
        }
    }

    /// How the service asked the payment service, if that is us.
    fn asked(&self) -> Option<Asked> {
        self.payment_service.as_ref().map(Mock::asked)
    }

    /// Compares what the service says with the ledger.
    pub async fn verify(
        &self,
        thrown: Option<&Thrown>,
        before: Option<Metrics>,
    ) -> Result<Report, Error> {
        let Self {
            options,
            plan,
            progress,
            api,
            broker,
            ..
        } = self;
        let mut comparison = compare(plan, options, api, progress).await;
        let letters = plan.letters.len() as u64;
        comparison.counted.add(Verdict::DeadLetter, letters);
        if let Some(thrown) = thrown {
            comparison.differences.absorb(thrown.differences.clone());
        }
        let readings = self.readings(before).await?;
        if let (Some(thrown), Some((before, after))) = (thrown, &readings) {
            let run = CounterRun {
                published: thrown.published,
                uncertain: thrown.uncertain,
            };
            let differences = compare_counters(before, after, &comparison.counted, run);
            comparison.differences.extend(differences);
            let healed = comparison
                .healed
                .iter()
                .filter(|healed| healed.verdict == Verdict::Applied);
            let difference = compare_healed(before, after, healed.count() as u64);
            comparison.differences.extend(difference);
        }
        let asked = self.asked();
        comparison
            .differences
            .extend(asked.as_ref().and_then(Asked::difference));
        let letters = if options.ops {
            self.read_ops(thrown, &mut comparison).await
        } else {
            None
        };
        if options.events {
            progress.enter(Phase::ReadingEvents, 0);
            let prefix = &options.names.outbound_prefix;
            let trails = std::mem::take(&mut comparison.trails);
            let follow = Follow::new(plan, prefix, &trails, &comparison.exceptions);
            let patience = options.patience.max(Duration::from_secs(5));
            let differences = events::follow(broker, &options.names, patience, follow).await?;
            comparison.differences.absorb(differences);
        }
        let mut report = Report::new(plan, thrown, comparison, readings.as_ref());
        report.questions = asked.map(|asked| asked.questions);
        report.found_letters(letters);
        let left = broker.backlog(&options.names).await;
        report.unacked = left.map_or(0, |left| left.pending + left.unacked);
        Ok(report)
    }

    async fn readings(&self, before: Option<Metrics>) -> Result<Option<Readings>, Error> {
        let Some(before) = before else {
            return Ok(None);
        };
        Ok(self.read_counters().await?.map(|after| (before, after)))
    }

    /// Compares exceptions and dead letters; says how many letters are this plan's.
    async fn read_ops(&self, thrown: Option<&Thrown>, comparison: &mut Comparison) -> Option<u64> {
        let Self {
            options,
            plan,
            progress,
            api,
            ..
        } = self;
        progress.enter(Phase::ReadingOps, 0);
        match ops::exceptions(plan, api, &comparison.exceptions).await {
            Ok(differences) => comparison.differences.extend(differences),
            Err(fault) => comparison.differences.push(fault),
        }
        // A killed instance takes what it was about to tell with it.
        if options.counters && !comparison.healed.is_empty() {
            match ops::runs(plan, api, &comparison.healed).await {
                Ok(differences) => comparison.differences.extend(differences),
                Err(fault) => comparison.differences.push(fault),
            }
        }
        // Who threw the plan earlier doesn't know any more how many copies were stored.
        let uncertain = thrown.map_or(u64::from(u32::MAX), |thrown| thrown.uncertain);
        match ops::dead_letters(plan, options, api, uncertain).await {
            Ok((letters, differences)) => {
                comparison.differences.extend(differences);
                Some(letters)
            }
            Err(fault) => {
                comparison.differences.push(fault);
                None
            }
        }
    }
}
