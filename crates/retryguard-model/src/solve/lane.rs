//! One number or several abreast: the passes over a factor are bound by memory, so that eight right-hand sides cost little more
//! than one.

pub(super) trait Lane: Copy {
    const ZERO: Self;
    /// How many numbers there are.
    const WIDTH: usize;
    fn add_scaled(&mut self, factor: f64, other: Self);
    fn scaled(self, factor: f64) -> Self;
    fn is_zero(self) -> bool;
    fn get(self, place: usize) -> f64;
    fn set(&mut self, place: usize, value: f64);
}

impl Lane for f64 {
    const ZERO: f64 = 0.0;
    const WIDTH: usize = 1;

    fn add_scaled(&mut self, factor: f64, other: f64) {
        *self += factor * other;
    }

    fn scaled(self, factor: f64) -> f64 {
        self * factor
    }

    fn is_zero(self) -> bool {
        self == 0.0
    }

    fn get(self, _place: usize) -> f64 {
        self
    }

    fn set(&mut self, _place: usize, value: f64) {
        *self = value;
    }
}

impl Lane for [f64; 8] {
    const ZERO: [f64; 8] = [0.0; 8];
    const WIDTH: usize = 8;

    fn add_scaled(&mut self, factor: f64, other: [f64; 8]) {
        for (own, other) in self.iter_mut().zip(other) {
            *own += factor * other;
        }
    }

    fn scaled(self, factor: f64) -> [f64; 8] {
        self.map(|own| own * factor)
    }

    fn is_zero(self) -> bool {
        self.iter().all(|own| *own == 0.0)
    }

    fn get(self, place: usize) -> f64 {
        self[place]
    }

    fn set(&mut self, place: usize, value: f64) {
        self[place] = value;
    }
}
