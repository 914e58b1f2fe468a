//! Elimination in a dense square, a panel of states at a time.
//!
//! A square of a thousand states does not fit into the near caches, so that passing on state by state would wait for memory. A panel's
//! rows are copied into strips as wide as the registers allow, and each tile of the square is read and written once for the whole panel.

use std::ops::Range;

/// States of a panel.
const PANEL: usize = 32;
/// Rows of a tile.
const HIGH: usize = 4;
/// Columns of a tile and of a strip: four rows of four numbers fit into the registers of any processor that we build for.
const WIDE: usize = 4;

/// Takes out the first `own` states of a square of rates with `exit` the rates out of it. Afterwards the square holds, for each of
/// them, its row of rates as it was when it was taken out, and in its column the shares by which it was passed on; the returned numbers are
/// one over its rate of leaving. What stands on the diagonal means nothing: a self-loop is not a transition.
pub(super) fn take_out(square: &mut [f64], size: usize, own: usize, exit: &mut [f64]) -> Vec<f64> {
    let mut scale = Vec::with_capacity(own);
    let mut strips: Vec<[f64; WIDE]> = Vec::new();
    for first in (0..own).step_by(PANEL) {
        let end = own.min(first + PANEL);
        for k in first..end {
            let (above, line) = square.split_at_mut(k * size);
            let line = &mut line[..size];
            for before in first..k {
                let share = line[before] * scale[before];
                line[before] = share;
                if share != 0.0 {
                    exit[k] += share * exit[before];
                    add(
                        &mut line[before + 1..],
                        share,
                        &above[before * size + before + 1..],
                    );
                }
            }
            scale.push(1.0 / (line[k + 1..].iter().sum::<f64>() + exit[k]));
        }
        let (above, below) = square.split_at_mut(end * size);
        let rows = &above[first * size..];
        let (gone, left) = exit.split_at_mut(end);
        for (line, exit) in below.chunks_exact_mut(size).zip(left) {
            for k in first..end {
                let share = line[k] * scale[k];
                line[k] = share;
                if share != 0.0 {
                    *exit += share * gone[k];
                    add(&mut line[k + 1..end], share, &rows[(k - first) * size + k + 1..]);
                }
            }
        }
        cut_strips(rows, size, end, &mut strips);
        for lines in below.chunks_mut(HIGH * size) {
            pass_on(lines, size, first..end, &strips);
        }
    }
    scale
}

fn add(line: &mut [f64], share: f64, row: &[f64]) {
    for (to, rate) in line.iter_mut().zip(row) {
        *to += share * rate;
    }
}

/// Copies rows from the column `end` on, strip after strip; the last one ends in zeros.
fn cut_strips(rows: &[f64], size: usize, end: usize, strips: &mut Vec<[f64; WIDE]>) {
    strips.clear();
    for column in (end..size).step_by(WIDE) {
        let width = WIDE.min(size - column);
        for row in rows.chunks_exact(size) {
            let mut piece = [0.0; WIDE];
            piece[..width].copy_from_slice(&row[column..column + width]);
            strips.push(piece);
        }
    }
}

/// Adds the shares of a panel's rows to up to [`HIGH`] lines, in the columns after the panel.
fn pass_on(lines: &mut [f64], size: usize, panel: Range<usize>, strips: &[[f64; WIDE]]) {
    let mut shares = [[0.0; HIGH]; PANEL];
    for (place, line) in lines.chunks_exact(size).enumerate() {
        for (shares, share) in shares.iter_mut().zip(&line[panel.clone()]) {
            shares[place] = *share;
        }
    }
    let depth = panel.len();
    let Some(from) = shares[..depth].iter().position(|shares| *shares != [0.0; HIGH]) else {
        return;
    };
    let shares = &shares[from..depth];
    for (number, strip) in strips.chunks_exact(depth).enumerate() {
        let tile = multiply(shares, &strip[from..]);
        let column = panel.end + number * WIDE;
        for (line, sums) in lines.chunks_exact_mut(size).zip(tile) {
            let rest = &mut line[column..];
            if let Some(to) = rest.first_chunk_mut::<WIDE>() {
                for (to, sum) in to.iter_mut().zip(sums) {
                    *to += sum;
                }
            } else {
                for (to, sum) in rest.iter_mut().zip(sums) {
                    *to += sum;
                }
            }
        }
    }
}

/// A tile of sums of products.
#[inline]
fn multiply(shares: &[[f64; HIGH]], strip: &[[f64; WIDE]]) -> [[f64; WIDE]; HIGH] {
    let mut tile = [[0.0; WIDE]; HIGH];
    for (shares, rates) in shares.iter().zip(strip) {
        for (sums, share) in tile.iter_mut().zip(shares) {
            for (sum, rate) in sums.iter_mut().zip(rates) {
                *sum += share * rate;
            }
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State by state, as the definition says.
    fn one_by_one(square: &mut [f64], size: usize, own: usize, exit: &mut [f64]) -> Vec<f64> {
        let mut scale = Vec::new();
        for k in 0..own {
            let row = square[k * size..(k + 1) * size].to_vec();
            scale.push(1.0 / (row[k + 1..].iter().sum::<f64>() + exit[k]));
            for i in k + 1..size {
                let share = square[i * size + k] * scale[k];
                square[i * size + k] = share;
                exit[i] += share * exit[k];
                add(
                    &mut square[i * size + k + 1..(i + 1) * size],
                    share,
                    &row[k + 1..],
                );
            }
        }
        scale
    }

    /// Rates over twelve orders of magnitude, one in `sparse` of which is there.
    fn draw(size: usize, sparse: u64) -> (Vec<f64>, Vec<f64>) {
        let mut state = size as u64 * 1_000 + sparse;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let square = (0..size * size)
            .map(|_| match draw() % sparse {
                0 => 10f64.powf((draw() % 12_000) as f64 / 1_000.0 - 6.0),
                _ => 0.0,
            })
            .collect();
        (square, vec![1e-3; size])
    }

    #[test]
    fn panels_and_tiles_of_every_remainder_take_out_what_single_states_do() {
        for (size, own) in [
            (1, 1),
            (5, 5),
            (7, 3),
            (32, 32),
            (33, 32),
            (35, 33),
            (70, 64),
            (101, 67),
            (102, 1),
        ] {
            for sparse in [1, 3, 20] {
                let (square, exit) = draw(size, sparse);
                let (mut a, mut left_a) = (square.clone(), exit.clone());
                let (mut b, mut left_b) = (square, exit);
                let scale_a = take_out(&mut a, size, own, &mut left_a);
                let scale_b = one_by_one(&mut b, size, own, &mut left_b);
                for i in 0..size {
                    // What stands on the diagonal means nothing.
                    (a[i * size + i], b[i * size + i]) = (0.0, 0.0);
                }
                let pairs = a.iter().zip(&b).chain(scale_a.iter().zip(&scale_b));
                for (a, b) in pairs.chain(left_a.iter().zip(&left_b)) {
                    assert!((a - b).abs() <= 1e-12 * b.abs(), "{size} {own} {sparse}: {a} {b}");
                }
                assert_eq!(scale_a.len(), own);
            }
        }
    }
}
