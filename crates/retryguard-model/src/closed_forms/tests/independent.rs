//! The forms against worlds that know none of them: bisection, linear algebra, and thrown dice with a fixed seed.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{attempts, buffer, load};
use crate::closed_forms::{Below, Delay, Overload, queue};

/// Eq. 3 solved for p̃ by halving the interval, with Eq. 1 added up term by term.
#[test]
fn rejection_by_bisection() {
    for (rho, k) in [(1.05, 3), (1.5, 5), (2.0, 2), (4.0, 6)] {
        let excess = |q: f64| {
            let total: f64 = (0..k).map(|i| rho * q.powi(i)).sum();
            1.0 - 1.0 / total - q
        };
        let (mut low, mut high) = (0.0, 1.0 - 1e-9);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if excess(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let storm = Overload::new(load(rho), attempts(k.cast_unsigned())).unwrap();
        assert!((storm.rejection() - low).abs() < 1e-9, "ρ {rho} k {k}");
    }
}

/// The rejection with feedback explains itself, and no other one does: between any two neighbours of a fine grid
/// the excess changes its sign once.
#[test]
fn one_rejection_explains_itself() {
    for (rho, k, m) in [(0.9, 3, 5), (0.97, 4, 20), (0.999, 30, 200), (1.5, 5, 50)] {
        let settled = Below::new(load(rho), attempts(k), buffer(m))
            .with_feedback()
            .rejection;
        let excess = |q: f64| {
            let total: f64 = (0..k.cast_signed()).map(|i| rho * q.powi(i)).sum();
            queue::single_server_rejection(load(total), buffer(m)) - q
        };
        assert!(excess(settled).abs() < 1e-12);
        let signs: Vec<bool> = (0..10_000)
            .map(|i| excess(f64::from(i) / 10_000.0) > 0.0)
            .collect();
        assert_eq!(
            signs.windows(2).filter(|pair| pair[0] != pair[1]).count(),
            1,
            "ρ {rho} k {k} m {m}"
        );
    }
}

/// The balance equations of M/M/c/m solved by Gauss elimination of the whole matrix.
#[test]
fn many_servers_by_linear_algebra() {
    for (rho, c, m) in [(0.7, 1_usize, 4_usize), (0.9, 3, 9), (1.4, 4, 4), (2.5, 5, 12)] {
        let states = m + 1;
        let arrival = rho * whole(c);
        // Flow into each state minus flow out of it; the last equation is replaced by "all sums to 1".
        let mut rows = vec![vec![0.0; states + 1]; states];
        for n in 0..m {
            let service = whole((n + 1).min(c));
            rows[n][n] -= arrival;
            rows[n + 1][n] += arrival;
            rows[n + 1][n + 1] -= service;
            rows[n][n + 1] += service;
        }
        rows[m] = vec![1.0; states + 1];
        let share = solve(rows);
        let in_system: f64 = share.iter().enumerate().map(|(n, p)| whole(n) * p).sum();
        let places = buffer(u32::try_from(m).unwrap());
        let steady = queue::servers(load(rho), u32::try_from(c).unwrap(), places).unwrap();
        assert!((steady.rejection - share[m]).abs() < 1e-12);
        assert!((steady.in_system - in_system).abs() < 1e-11);
        let let_in = arrival * (1.0 - share[m]);
        assert!((steady.time_in_system - in_system / let_in).abs() < 1e-11);
    }
}

/// Calls one by one, each attempt rejected by a coin, the waits added up.
#[test]
fn delays_by_throwing_coins() {
    let mut dice = Dice(7);
    for (q, k) in [(0.3625, 3), (0.6934, 3), (0.8027, 5)] {
        const CALLS: u32 = 400_000;
        let (mut with_last, mut without_last, mut squares) = (0.0, 0.0, 0.0);
        for _ in 0..CALLS {
            let mut waited = 0.0;
            let mut wait = 1.0;
            let mut left = k;
            let mut last = 0.0;
            while left > 0 && dice.unit() < q {
                last = wait;
                waited += wait;
                wait *= 2.0;
                left -= 1;
            }
            with_last += waited;
            squares += waited * waited;
            without_last += if left == 0 { waited - last } else { waited };
        }
        let calls = f64::from(CALLS);
        let mean = with_last / calls;
        let error = ((squares / calls - mean * mean) / calls).sqrt();
        let delay = Delay::new(q, attempts(k)).unwrap();
        assert!(
            (mean - delay.expected()).abs() < 4.0 * error,
            "k {k}: {mean} ± {error}"
        );
        let shorter = without_last / calls;
        assert!((shorter - delay.last_wait_omitted()).abs() < 4.0 * error);
        // The dice can tell the right form from the printed one.
        assert!((mean - delay.printed()).abs() > 20.0 * error);
    }
}

/// A queue of 50 places at 150 % load whose calls retry after long random waits: the form for overload, which
/// ignores both the buffer and the correlation of rejections, is right to one in a hundred.
#[test]
fn overload_by_a_simulated_queue() {
    let seen = simulate(1.5, 5, 50, 1_500_000, &mut Dice(11));
    let storm = Overload::new(load(1.5), attempts(5)).unwrap();
    assert!(
        (seen.rejection - storm.rejection()).abs() < 0.008,
        "{}",
        seen.rejection
    );
    assert!((seen.retries_per_call - storm.retries_per_call()).abs() < 0.08);
}

/// Just below capacity the simulated queue follows the form with feedback, and not Eq. 9 nor k·p̃.
#[test]
fn feedback_by_a_simulated_queue() {
    let seen = simulate(0.97, 4, 20, 2_000_000, &mut Dice(13));
    let forms = Below::new(load(0.97), attempts(4), buffer(20));
    let settled = forms.with_feedback();
    let near = |a: f64, b: f64| (a / b - 1.0).abs();
    assert!(
        near(seen.rejection, settled.rejection) < 0.05,
        "{} {}",
        seen.rejection,
        settled.rejection
    );
    assert!(near(seen.retries_per_call, settled.retries_per_call) < 0.05);
    assert!(near(seen.rejection, forms.rejection()) > 0.3);
    assert!(near(seen.retries_per_call, forms.printed_retries_per_call()) > 0.3);
}

struct Seen {
    rejection: f64,
    retries_per_call: f64,
}

/// Mean wait in service times: long against the m² that a queue near capacity takes to forget, so that a retry
/// meets another buffer than the attempt before it did.
const WAIT: f64 = 10_000.0;

/// M/M/1/m with retries after exponential waits.
fn simulate(rho: f64, k: u32, m: u32, calls: u32, dice: &mut Dice) -> Seen {
    let warm_up = calls / 5;
    let mut waiting = BinaryHeap::new();
    let (mut now, mut in_system) = (0.0_f64, 0_u32);
    let mut next_call = dice.exponential() / rho;
    let mut departure = f64::INFINITY;
    let (mut made, mut attempts, mut rejected, mut counted) = (0, 0.0, 0.0, 0.0);
    while made < calls {
        let retry = waiting
            .peek()
            .map_or(f64::INFINITY, |Reverse((at, _))| f64::from_bits(*at));
        if departure <= next_call && departure <= retry {
            now = departure;
            in_system -= 1;
            departure = if in_system > 0 {
                now + dice.exponential()
            } else {
                f64::INFINITY
            };
            continue;
        }
        let number = if retry < next_call {
            now = retry;
            waiting.pop().map_or(0, |Reverse((_, number))| number)
        } else {
            now = next_call;
            next_call = now + dice.exponential() / rho;
            made += 1;
            0
        };
        let count = f64::from(u8::from(made > warm_up));
        attempts += count;
        counted += if number == 0 { count } else { 0.0 };
        if in_system < m {
            in_system += 1;
            if in_system == 1 {
                departure = now + dice.exponential();
            }
        } else {
            rejected += count;
            if number + 1 < k {
                // Times are positive, so their bits sort as they do.
                waiting.push(Reverse(((now + WAIT * dice.exponential()).to_bits(), number + 1)));
            }
        }
    }
    assert!(now > 0.0);
    Seen {
        rejection: rejected / attempts,
        retries_per_call: attempts / counted - 1.0,
    }
}

fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let size = rows.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))
            .unwrap();
        rows.swap(column, pivot);
        let upper = rows[column].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            if index != column {
                let factor = row[column] / upper[column];
                for (value, above) in row.iter_mut().zip(&upper) {
                    *value -= factor * above;
                }
            }
        }
    }
    (0..size).map(|n| rows[n][size] / rows[n][n]).collect()
}

fn whole(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 32 bits are exact in a double and plenty here.
        f64::from(u32::try_from(z >> 32).unwrap()) / 4_294_967_296.0
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}
