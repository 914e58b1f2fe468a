//! The trade-off: every setting by its cost and its goodput, and the line of those that nothing beats in both.

use retryguard_report::chart::{Figure, Panel, Piece, ticks};

use super::{Figures, Improvement, Tried, rank};

impl Improvement {
    /// The settings of the search as SVG: less is better on both axes. Goodput is shown as what is lost against the best
    /// setting of those that ran in all replications.
    #[must_use]
    pub fn svg(&self) -> String {
        let all: Vec<Figures> = self.tried.iter().map(|it| self.comparable(it)).collect();
        let most_runs = self.tried.iter().map(|it| it.replications).max().unwrap_or(0);
        let kept: Vec<Figures> = self
            .tried
            .iter()
            .zip(&all)
            .filter(|(it, _)| it.replications == most_runs)
            .map(|(_, figures)| *figures)
            .collect();
        let most = kept.iter().map(|it| it.goodput).fold(f64::MIN_POSITIVE, f64::max);
        // A setting that was dropped early may have been lucky: then it lost nothing.
        let place = |it: &Figures| (it.cost, (1.0 - it.goodput / most).max(0.0) * 100.0);
        let finite =
            |all: &[Figures]| -> Piece { all.iter().filter(|it| it.cost.is_finite()).map(place).collect() };
        let tuned = self
            .tried
            .iter()
            .position(|it| it.is_tuned)
            .map(|it| place(&all[it]));
        let written = all.first().map(place);
        let points = finite(&all);
        let shown = Shown::of(&points, tuned);
        let marks = |points: Piece| -> Vec<Piece> {
            let inside = points.into_iter().filter(|point| shown.holds(*point));
            inside.map(|point| vec![point]).collect()
        };
        let front = rank::front(&kept).into_iter().map(|it| place(&kept[it]));
        let outside = points.iter().filter(|point| !shown.holds(**point)).count();
        let is_outside = written.is_some_and(|point| !shown.holds(point));
        let lines = vec![
            marks(points.clone()),
            vec![front.filter(|point| shown.holds(*point)).collect()],
            marks(finite(&kept)),
            marks(written.into_iter().collect()),
            marks(tuned.into_iter().collect()),
        ];
        let names = vec![
            match outside {
                0 => "dropped early".to_owned(),
                _ => format!("dropped; {outside} outside"),
            },
            "nothing beats these".to_owned(),
            "in all replications".to_owned(),
            match is_outside {
                true => "as written: outside".to_owned(),
                false => "as written".to_owned(),
            },
            "tuned".to_owned(),
        ];
        let world = self.judged.first().map_or("", |judged| judged.name.as_str());
        let lost = written.map_or(0.0, |point| point.1);
        Figure {
            title: &format!(
                "{world}: {} settings; the policy as written loses {lost:.0} %",
                self.tried.len()
            ),
            panels: vec![Panel {
                label: "goodput lost against the best setting, %",
                x_label: match self.is_bill {
                    true => "bill",
                    false => "requests to services for each successful call",
                },
                x_range: (shown.left, shown.right),
                x_ticks: ticks(shown.left, shown.right),
                lines,
            }],
            names,
        }
        .svg()
    }

    /// A setting that was dropped early ran in fewer replications, so it is set against the tuned policy in the same ones.
    fn comparable(&self, it: &Tried) -> Figures {
        let tuned = self.tried.iter().find(|it| it.is_tuned);
        let whole = tuned.map_or(it.tuned, |tuned| tuned.figures);
        let scaled = |value: f64, own: f64, all: f64| {
            if own > 0.0 && own.is_finite() {
                value / own * all
            } else {
                value
            }
        };
        Figures {
            goodput: scaled(it.figures.goodput, it.tuned.goodput, whole.goodput),
            cost: scaled(it.figures.cost, it.tuned.cost, whole.cost),
            ..it.figures
        }
    }
}

/// The part of the plane that is drawn: nine tenths of the settings on each axis, so that a few very bad ones do not press all others
/// into a corner.
struct Shown {
    left: f64,
    right: f64,
    top: f64,
}

impl Shown {
    fn of(points: &[(f64, f64)], tuned: Option<(f64, f64)>) -> Self {
        let quantile = |of: fn(&(f64, f64)) -> f64, share: f64| {
            let mut values: Vec<f64> = points.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length"
            )]
            let place = (values.len().saturating_sub(1) as f64 * share) as usize;
            values.get(place).copied().unwrap_or(1.0)
        };
        let tuned = tuned.unwrap_or((1.0, 0.0));
        let least = points.iter().map(|point| point.0).fold(tuned.0, f64::min);
        let right = quantile(|point| point.0, 0.9).max(tuned.0);
        let margin = ((right - least) * 0.05).max(0.01 * right.abs()).max(1e-9);
        Self {
            left: least - margin,
            right: right + margin,
            top: quantile(|point| point.1, 0.9).max(tuned.1).max(0.1),
        }
    }

    fn holds(&self, (x, y): (f64, f64)) -> bool {
        x >= self.left && x <= self.right && y <= self.top
    }
}
