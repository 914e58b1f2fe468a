//! Which of two settings is better: goodput first, then cost, then latency.

/// What a policy came to in one replication, or on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Successful calls a second.
    pub goodput: f64,
    /// What it cost: the bill where services have prices, and otherwise requests to services for each successful call.
    pub cost: f64,
    /// The 95th percentile of the time that a call takes, in milliseconds.
    pub latency: f64,
}

impl Figures {
    pub(super) fn mean(of: &[Self]) -> Self {
        let count = of.len().max(1) as f64;
        let mean = |part: fn(&Self) -> f64| of.iter().map(part).sum::<f64>() / count;
        Self {
            goodput: mean(|it| it.goodput),
            cost: mean(|it| it.cost),
            latency: mean(|it| it.latency),
        }
    }
}

/// The places of `all`, the best first. Differences of goodput and of cost within this share count as none; of settings
/// that are equal, the one that stands first in the list is better.
pub(super) fn order(all: &[Figures], within: f64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..all.len()).collect();
    let mut ordered = Vec::with_capacity(all.len());
    while !left.is_empty() {
        let best = best(all, &left, within);
        left.retain(|place| *place != best);
        ordered.push(best);
    }
    ordered
}

fn best(all: &[Figures], among: &[usize], within: f64) -> usize {
    let most = among.iter().map(|it| all[*it].goodput).fold(0.0, f64::max);
    let served: Vec<usize> = among
        .iter()
        .copied()
        .filter(|it| all[*it].goodput >= most * (1.0 - within))
        .collect();
    let least = served
        .iter()
        .map(|it| all[*it].cost)
        .fold(f64::INFINITY, f64::min);
    let mut cheap = served
        .iter()
        .copied()
        .filter(|it| all[*it].cost <= least * (1.0 + within) || !least.is_finite());
    let first = cheap.next().unwrap_or(among[0]);
    cheap.fold(first, |best, other| {
        if all[other].latency < all[best].latency {
            other
        } else {
            best
        }
    })
}

/// The places of those that no other beats in goodput and cost at once, by cost.
pub(super) fn front(all: &[Figures]) -> Vec<usize> {
    let mut by_cost: Vec<usize> = (0..all.len()).filter(|it| all[*it].cost.is_finite()).collect();
    by_cost.sort_by(|a, b| {
        let (a, b) = (&all[*a], &all[*b]);
        a.cost.total_cmp(&b.cost).then(b.goodput.total_cmp(&a.goodput))
    });
    let mut most = f64::NEG_INFINITY;
    by_cost.retain(|it| {
        let better = all[*it].goodput > most;
        most = most.max(all[*it].goodput);
        better
    });
    by_cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(goodput: f64, cost: f64, latency: f64) -> Figures {
        Figures {
            goodput,
            cost,
            latency,
        }
    }

    #[test]
    fn goodput_decides_then_cost_then_latency() {
        let all = [
            figures(90.0, 1.0, 10.0),
            figures(100.0, 2.0, 10.0),
            figures(99.5, 1.5, 80.0),
            figures(99.6, 1.5, 70.0),
            figures(99.6, 1.5, 70.0),
        ];
        assert_eq!(order(&all, 0.01), [3, 4, 2, 1, 0]);
        assert_eq!(order(&all, 0.0)[0], 1);
        assert_eq!(front(&all), [0, 3, 1]);
    }

    #[test]
    fn a_world_in_which_nothing_succeeds_has_an_order_too() {
        let none = figures(0.0, f64::INFINITY, f64::INFINITY);
        assert_eq!(order(&[none, none], 0.01), [0, 1]);
        assert!(front(&[none]).is_empty());
    }
}
