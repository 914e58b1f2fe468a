//! The runs, one after the other, with the same seed, the same load and the same fault.

use std::{collections::VecDeque, time::Duration};

use anyhow::Context as _;
use tokio::sync::watch;

use super::{
    EVERY, Own,
    frame::{Arm, Frame, Phase, RateBaseline},
    verdict,
};
use crate::{
    Configuration, Settings, System, TimeScale, clock,
    faults::{Fault, Kind},
    load::{Driver, Plan},
    settings::Capacity,
};

/// What all runs have in common. Ten seconds of the described system pass in one.
#[derive(Debug, Clone)]
pub struct Act {
    scale: f64,
    rate: f64,
    payments: Capacity,
    length: Duration,
    window: (Duration, Duration),
    patience: Duration,
    fault: Fault,
}

/// One of the runs: what it is called, and its policy.
struct Run {
    title: String,
    policy: String,
}

impl Act {
    /// Payments that can do sixty a second, and are asked for forty: there is room, until something breaks for four
    /// seconds. By default that is a loss of all workers but one.
    ///
    /// # Errors
    /// Where the fault does not work under this load.
    pub fn storm(kind: Kind) -> anyhow::Result<Self> {
        if kind == Kind::GatewayOverload {
            anyhow::bail!(
                "gateway_overload needs users that wait for their answers: run `retryguard lab run --fault gateway_overload`"
            );
        }
        let fault = Fault::of(kind);
        Ok(Self {
            scale: 0.1,
            rate: 40.0,
            payments: Capacity {
                workers: 6,
                queue: 120,
            },
            length: Duration::from_secs(170),
            window: (Duration::from_secs(40), Duration::from_secs(80)),
            patience: Duration::from_secs(30),
            fault: if kind == Kind::CapacityLoss {
                fault.share(0.17)?
            } else {
                fault
            },
        })
    }

    fn settings(&self, run: &Run, seed: u64) -> anyhow::Result<Settings> {
        let mut settings = Settings {
            title: run.title.clone(),
            policy: run.policy.clone(),
            scale: TimeScale::new(self.scale)?,
            seed,
            payments: self.payments,
            ..Settings::described(Configuration::G)
        };
        // Six workers, each ten payments a second here: a hundred milliseconds after the scale.
        settings.payment_time.usual = Duration::from_secs(1);
        Ok(settings)
    }

    /// Payments a second with all workers.
    fn capacity(&self) -> f64 {
        self.payments.workers as f64 * 10.0
    }

    fn plan(&self) -> Plan {
        let (from, until) = self.window;
        let mut plan = Plan::open(self.rate, self.length).with(self.fault.clone(), from, until);
        plan.patience = self.patience;
        plan.replays = 0.0;
        plan
    }

    /// What breaks, in words, as it passes here.
    fn words(&self) -> String {
        let service = self.fault.service;
        let share = self.fault.share * 100.0;
        match self.fault.kind {
            Kind::PaymentErrors => format!("{share:.0} % of all charges fail with 503"),
            Kind::PaymentSlow => "charges take 0.3 s longer, some 2 s".to_owned(),
            Kind::InventoryLock => "reservations hold their rows for 0.2 s".to_owned(),
            Kind::RetryStorm => format!("{share:.0} % of all charges fail, users retry at once"),
            Kind::GatewayOverload => "users multiply".to_owned(),
            Kind::Kill => format!("{service} are killed"),
            Kind::Reset => format!("{share:.0} % of the answers of {service} break off"),
            Kind::Drip => format!("answers of {service} come a byte at a time"),
            Kind::CapacityLoss => format!("{service} lose all workers but one"),
        }
    }
}

/// The runs: what most services have, the same with a circuit breaker or the user's own policy, and RetryGuard.
///
/// The user's own policy is taken as it is written: its durations are made longer by the factor by which the system then makes
/// them shorter.
fn runs(act: &Act, own: Option<Own>) -> anyhow::Result<[Run; 3]> {
    let of = |title: &str, configuration: Configuration| Run {
        title: title.to_owned(),
        policy: configuration.policy().to_owned(),
    };
    Ok([
        of("retries and timeouts", Configuration::C),
        match own {
            Some(own) => Run {
                title: own.title,
                policy: TimeScale::new(1.0 / act.scale)?.policy(&own.text),
            },
            None => of("a circuit breaker", Configuration::D),
        },
        of("RetryGuard", Configuration::G),
    ])
}

/// Plays all runs and sends a frame for every look.
pub(super) async fn play(
    act: Act,
    own: Option<Own>,
    seed: u64,
    frames: watch::Sender<Frame>,
) -> anyhow::Result<()> {
    let runs = runs(&act, own)?;
    let scaled = |span: Duration| span.as_secs_f64() * act.scale;
    frames.send_modify(|frame| {
        frame.titles = runs.iter().map(|run| run.title.clone()).collect();
        frame.fault = act.words();
        frame.length = scaled(act.length);
        frame.fault_from = scaled(act.window.0);
        frame.fault_until = scaled(act.window.1);
        frame.offered = act.rate;
        frame.capacity = act.capacity();
        frame.seed = seed;
    });
    for run in &runs {
        if let Err(error) = one(&act, run, seed, &frames).await {
            frames.send_modify(|frame| frame.failed = true);
            return Err(error);
        }
    }
    frames.send_modify(|frame| {
        frame.over = true;
        frame.verdict = verdict::sentence(frame);
    });
    Ok(())
}

async fn one(act: &Act, run: &Run, seed: u64, frames: &watch::Sender<Frame>) -> anyhow::Result<()> {
    let system = System::start(act.settings(run, seed)?)
        .await
        .with_context(|| format!("the run \"{}\"", run.title))?;
    let driver = Driver::new(&system, act.plan())?;
    frames.send_modify(|frame| {
        frame.arms.push(Arm {
            title: run.title.clone(),
            digest: system.policy().digest().to_owned(),
            ..Arm::default()
        });
    });
    let start = clock::now();
    let mut look = tokio::time::interval(EVERY);
    let mut running = Box::pin(driver.run());
    // A second of looks: rates are taken over it.
    let mut seen: VecDeque<RateBaseline> = VecDeque::from([look_at(&system, &driver, 0.0)]);
    let mut measured = None;
    let length = act.length.mul_f64(act.scale).as_secs_f64();
    loop {
        tokio::select! {
            result = &mut running, if measured.is_none() => measured = Some(result),
            _ = look.tick() => {
                let at = (clock::now() - start).as_secs_f64();
                if at > length && measured.is_some() {
                    break;
                }
                let now = look_at(&system, &driver, at);
                while seen.len() > 1 && seen[1].at <= at - 1.0 {
                    seen.pop_front();
                }
                frames.send_modify(|frame| {
                    if at <= length {
                        let (from, until) = (frame.fault_from, frame.fault_until);
                        if let (Some(arm), Some(last)) = (frame.arms.last_mut(), seen.back()) {
                            arm.take(&seen[0], last, &now);
                            arm.phase = phase(at, from, until);
                        }
                    }
                });
                seen.push_back(now);
            }
        }
    }
    let effects = system.effects().await?;
    frames.send_modify(|frame| {
        if let (Some(arm), Some(measured)) = (frame.arms.last_mut(), &measured) {
            arm.phase = Phase::Done;
            arm.orders = measured.total;
            arm.duplicates = Some(effects.duplicate_charges());
            arm.paid_before = Some(measured.success_between(Duration::ZERO, act.window.0));
            arm.paid_during = Some(measured.success_between(act.window.0, act.window.1));
            arm.paid_after = Some(measured.success_between(act.window.1, act.length));
            let last = act.length.saturating_sub(Duration::from_secs(30));
            arm.paid_last = Some(measured.success_between(last, act.length));
            arm.amplification = Some(arm.arrived as f64 / measured.total.sent.max(1) as f64);
            arm.kept = Some(measured.kept);
            let seconds: Vec<(u64, u64)> = measured
                .slices
                .iter()
                .map(|slice| (slice.sent, slice.paid))
                .collect();
            let fault_end = usize::try_from(act.window.1.as_secs()).unwrap_or(usize::MAX);
            arm.recovered = verdict::recovered(&seconds, fault_end).map(|described| described * act.scale);
        }
    });
    system.stop().await;
    Ok(())
}

fn look_at(system: &System, driver: &Driver, at: f64) -> RateBaseline {
    RateBaseline {
        at,
        live: driver.live(),
        attempts: driver.attempts(),
        snapshot: system.snapshot(),
    }
}

fn phase(at: f64, from: f64, until: f64) -> Phase {
    if at < from {
        Phase::Calm
    } else if at < until {
        Phase::Broken
    } else {
        Phase::After
    }
}
