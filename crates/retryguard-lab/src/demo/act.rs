//! The two runs, one after the other, with the same seed, the same load and the same fault.

use std::{collections::VecDeque, time::Duration};

use tokio::sync::watch;

use super::{
    EVERY,
    frame::{Arm, Frame, Phase, Seen},
};
use crate::{
    Configuration, Settings, System, TimeScale, clock,
    faults::{Fault, Kind},
    load::{Driver, Plan},
    settings::Capacity,
};

/// What both runs have in common. Ten seconds of the described system pass in one.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    scale: f64,
    rate: f64,
    payments: Capacity,
    length: Duration,
    fault: (Duration, Duration),
    patience: Duration,
}

impl Act {
    /// Payments that can do sixty a second, and are asked for forty: there is room, until all workers
    /// but one are gone for four seconds.
    pub const STORM: Self = Self {
        scale: 0.1,
        rate: 40.0,
        payments: Capacity {
            workers: 6,
            queue: 120,
        },
        length: Duration::from_secs(200),
        fault: (Duration::from_secs(40), Duration::from_secs(80)),
        patience: Duration::from_secs(30),
    };

    fn settings(&self, configuration: Configuration, seed: u64) -> anyhow::Result<Settings> {
        let mut settings = Settings {
            scale: TimeScale::new(self.scale)?,
            seed,
            payments: self.payments,
            ..Settings::described(configuration)
        };
        // Six workers, each ten payments a second here: a hundred milliseconds after the scale.
        settings.payment_time.usual = Duration::from_secs(1);
        Ok(settings)
    }

    /// Payments a second with all workers.
    fn capacity(&self) -> f64 {
        self.payments.workers as f64 * 10.0
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let fault = Fault::of(Kind::CapacityLoss).share(0.17)?;
        let mut plan = Plan::open(self.rate, self.length).with(fault, self.fault.0, self.fault.1);
        plan.patience = self.patience;
        plan.replays = 0.0;
        Ok(plan)
    }
}

/// Plays both runs and sends a frame for every look.
pub(super) async fn play(seed: u64, frames: watch::Sender<Frame>) -> anyhow::Result<()> {
    let act = Act::STORM;
    let scaled = |span: Duration| span.as_secs_f64() * act.scale;
    frames.send_modify(|frame| {
        frame.length = scaled(act.length);
        frame.fault_from = scaled(act.fault.0);
        frame.fault_until = scaled(act.fault.1);
        frame.offered = act.rate;
        frame.capacity = act.capacity();
        frame.seed = seed;
    });
    for (title, configuration) in [
        ("retries and timeouts", Configuration::C),
        ("RetryGuard", Configuration::G),
    ] {
        one(&act, title, configuration, seed, &frames).await?;
    }
    frames.send_modify(|frame| frame.over = true);
    Ok(())
}

async fn one(
    act: &Act,
    title: &str,
    configuration: Configuration,
    seed: u64,
    frames: &watch::Sender<Frame>,
) -> anyhow::Result<()> {
    let system = System::start(act.settings(configuration, seed)?).await?;
    let driver = Driver::new(&system, act.plan()?)?;
    frames.send_modify(|frame| {
        frame.arms.push(Arm {
            title: title.to_owned(),
            digest: system.policy().digest().to_owned(),
            ..Arm::default()
        });
    });
    let start = clock::now();
    let mut look = tokio::time::interval(EVERY);
    let mut running = Box::pin(driver.run());
    // A second of looks: rates are taken over it.
    let mut seen: VecDeque<Seen> = VecDeque::from([look_at(&system, &driver, 0.0)]);
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
                        if let Some(arm) = frame.arms.last_mut() {
                            arm.take(&seen[0], &now);
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
            arm.paid_before = Some(measured.success_between(Duration::ZERO, act.fault.0));
            arm.paid_during = Some(measured.success_between(act.fault.0, act.fault.1));
            arm.paid_after = Some(measured.success_between(act.fault.1, act.length));
            let last = act.length.saturating_sub(Duration::from_secs(30));
            arm.paid_last = Some(measured.success_between(last, act.length));
            arm.amplification = Some(arm.arrived as f64 / measured.total.sent.max(1) as f64);
            arm.kept = Some(measured.kept);
        }
    });
    system.stop().await;
    Ok(())
}

fn look_at(system: &System, driver: &Driver, at: f64) -> Seen {
    Seen {
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
