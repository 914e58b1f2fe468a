//! The tests themselves, and proof that they can fail.

/// How far the empirical distribution lies from the uniform one on `[low, high]`, times √n
/// (Kolmogorov–Smirnov). Above 1.63 in one of a hundred samples of a truly uniform variable, above 1.95 in one
/// of a thousand.
pub(super) fn distance_from_uniform(draws: &[f64], low: f64, high: f64) -> f64 {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let distance = sorted.iter().enumerate().map(|(index, draw)| {
        let expected = ((draw - low) / (high - low)).clamp(0.0, 1.0);
        let (below, above) = (index as f64 / n, (index + 1) as f64 / n);
        (expected - below).abs().max((above - expected).abs())
    });
    distance.fold(0.0, f64::max) * n.sqrt()
}

pub(super) fn mean_and_variance(draws: &[f64]) -> (f64, f64) {
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / n;
    (mean, variance)
}

/// The sum of (observed − expected)² / expected over bins that should be equally full.
pub(super) fn chi_square(bins: &[u64]) -> f64 {
    let expected = bins.iter().sum::<u64>() as f64 / bins.len() as f64;
    bins.iter()
        .map(|count| (*count as f64 - expected).powi(2) / expected)
        .sum()
}

/// Mean, variance and shape of a uniform variable on `[low, high]`.
#[track_caller]
pub(super) fn assert_uniform(draws: &[f64], low: f64, high: f64) {
    let width = high - low;
    let (mean, variance) = mean_and_variance(draws);
    // Five standard errors of each.
    let n = draws.len() as f64;
    let mean_error = 5.0 * width / (12.0 * n).sqrt();
    let variance_error = 5.0 * width * width / (180.0 * n).sqrt();
    assert!((mean - (low + high) / 2.0).abs() < mean_error, "mean {mean}");
    assert!(
        (variance - width * width / 12.0).abs() < variance_error,
        "variance {variance}"
    );
    assert!(
        draws.iter().all(|draw| (low..=high).contains(draw)),
        "out of [{low}, {high}]"
    );
    let distance = distance_from_uniform(draws, low, high);
    assert!(distance < 1.95, "not uniform on [{low}, {high}]: {distance}");
}

#[test]
fn what_is_not_uniform_is_found_out() {
    let even: Vec<f64> = (0..10_000).map(|index| f64::from(index) / 10_000.0).collect();
    assert_uniform(&even, 0.0, 1.0);
    let clipped: Vec<f64> = even.iter().map(|draw| draw.min(0.95)).collect();
    let bent: Vec<f64> = even.iter().map(|draw| draw.powf(1.1)).collect();
    assert!(distance_from_uniform(&clipped, 0.0, 1.0) > 1.95);
    assert!(distance_from_uniform(&bent, 0.0, 1.0) > 1.95);
    assert!(chi_square(&[1000; 30]) < 1.0);
    assert!(chi_square(&[vec![1000; 29], vec![1300]].concat()) > 58.3);
}
