//! Elimination in a dense square, four states at a time.

/// Takes out the first `own` states of a square of rates with `exit` the rates out of it. Afterwards the square holds, for each of
/// them, its row of rates as it was when it was taken out, and in its column the shares by which it was passed on; the returned numbers are
/// one over its rate of leaving. What stands on the diagonal means nothing: a return to the state itself is no transition.
pub(super) fn take_out(square: &mut [f64], size: usize, own: usize, exit: &mut [f64]) -> Vec<f64> {
    let mut scale = Vec::with_capacity(own);
    for first in (0..own).step_by(4) {
        let end = own.min(first + 4);
        for k in first..end {
            let (above, line) = square.split_at_mut(k * size);
            let line = &mut line[..size];
            for before in first..k {
                let row = &above[before * size..(before + 1) * size];
                let share = line[before] * scale[before];
                line[before] = share;
                exit[k] += share * exit[before];
                for (to, rate) in line[before + 1..].iter_mut().zip(&row[before + 1..]) {
                    *to += share * rate;
                }
            }
            scale.push(1.0 / (line[k + 1..].iter().sum::<f64>() + exit[k]));
        }
        let (above, below) = square.split_at_mut(end * size);
        let rows = &above[first * size..];
        for (i, line) in below.chunks_exact_mut(size).enumerate() {
            let mut shares = [0.0; 4];
            for k in first..end {
                let share = line[k] * scale[k];
                shares[k - first] = share;
                line[k] = share;
                exit[end + i] += share * exit[k];
                let row = &rows[(k - first) * size..];
                for to in k + 1..end {
                    line[to] += share * row[to];
                }
            }
            if shares != [0.0; 4] {
                pass_on(&mut line[end..], shares, rows, size, end);
            }
        }
    }
    scale
}

/// Adds the shares of up to four rows, from the place `end` on.
fn pass_on(line: &mut [f64], shares: [f64; 4], rows: &[f64], size: usize, end: usize) {
    if rows.len() < 4 * size {
        for (row, share) in rows.chunks_exact(size).zip(shares) {
            for (to, rate) in line.iter_mut().zip(&row[end..]) {
                *to += share * rate;
            }
        }
        return;
    }
    let (a, rest) = rows.split_at(size);
    let (b, rest) = rest.split_at(size);
    let (c, d) = rest.split_at(size);
    let rates = a[end..]
        .iter()
        .zip(&b[end..])
        .zip(c[end..].iter().zip(&d[end..size]));
    for (to, ((a, b), (c, d))) in line.iter_mut().zip(rates) {
        *to += (shares[0] * a + shares[1] * b) + (shares[2] * c + shares[3] * d);
    }
}
