//! States in as few bits as their variables need.

use std::hash::Hash;

use crate::error::Error;
use crate::program::Program;

/// A packed state. Most models fit one word.
pub(super) trait Key: Copy + Eq + Hash + Send {
    fn zero() -> Self;
    fn insert(&mut self, shift: u32, value: u64);
    fn extract(&self, shift: u32, width: u32) -> u64;
}

impl Key for u64 {
    fn zero() -> u64 {
        0
    }

    fn insert(&mut self, shift: u32, value: u64) {
        *self |= value << shift;
    }

    fn extract(&self, shift: u32, width: u32) -> u64 {
        (self >> shift) & mask(width)
    }
}

impl Key for u128 {
    fn zero() -> u128 {
        0
    }

    fn insert(&mut self, shift: u32, value: u64) {
        *self |= u128::from(value) << shift;
    }

    #[expect(clippy::cast_possible_truncation, reason = "the mask leaves at most 64 bits")]
    fn extract(&self, shift: u32, width: u32) -> u64 {
        ((self >> shift) as u64) & mask(width)
    }
}

impl<const N: usize> Key for [u64; N] {
    fn zero() -> [u64; N] {
        [0; N]
    }

    fn insert(&mut self, shift: u32, value: u64) {
        self[(shift / 64) as usize] |= value << (shift % 64);
    }

    fn extract(&self, shift: u32, width: u32) -> u64 {
        (self[(shift / 64) as usize] >> (shift % 64)) & mask(width)
    }
}

fn mask(width: u32) -> u64 {
    if width == 64 { u64::MAX } else { (1 << width) - 1 }
}

struct Field {
    low: i64,
    shift: u32,
    width: u32,
}

/// Where each variable lies.
pub(super) struct Packing {
    fields: Vec<Field>,
    bits: u32,
}

/// The widest state.
const MAX_BITS: u32 = 1024;

impl Packing {
    pub(super) fn new(program: &Program) -> Result<Packing, Error> {
        let mut fields = Vec::with_capacity(program.variables.len());
        let mut bits = 0u32;
        for variable in &program.variables {
            let distance = variable.high.abs_diff(variable.low);
            let width = 64 - distance.leading_zeros();
            // No field crosses a word, so that wide states can be read word by word.
            if bits % 64 + width > 64 {
                bits = bits.next_multiple_of(64);
            }
            fields.push(Field {
                low: variable.low,
                shift: bits,
                width,
            });
            bits += width;
            if bits > MAX_BITS {
                return Err(Error::Limit {
                    what: "bits of state",
                    limit: u64::from(MAX_BITS),
                    help: "use fewer variables or smaller ranges",
                });
            }
        }
        Ok(Packing { fields, bits })
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    pub(super) fn pack<K: Key>(&self, state: &[i64]) -> K {
        let mut key = K::zero();
        for (field, value) in self.fields.iter().zip(state) {
            if field.width > 0 {
                key.insert(field.shift, value.abs_diff(field.low));
            }
        }
        key
    }

    pub(super) fn unpack<K: Key>(&self, key: &K, state: &mut [i64]) {
        for (field, value) in self.fields.iter().zip(state) {
            *value = if field.width == 0 {
                field.low
            } else {
                field
                    .low
                    .wrapping_add_unsigned(key.extract(field.shift, field.width))
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Variable;

    fn round_trip<K: Key>(ranges: &[(i64, i64)], state: &[i64]) {
        let program = Program {
            variables: ranges
                .iter()
                .map(|(low, high)| Variable {
                    name: String::new(),
                    low: *low,
                    high: *high,
                    init: *low,
                    boolean: false,
                    mirrored: false,
                    module: None,
                })
                .collect(),
            groups: vec![],
            labels: vec![],
            rewards: vec![],
            init: None,
        };
        let packing = Packing::new(&program).unwrap();
        let key: K = packing.pack(state);
        let mut back = vec![0; state.len()];
        packing.unpack(&key, &mut back);
        assert_eq!(back, state);
    }

    #[test]
    fn what_is_packed_comes_back() {
        round_trip::<u64>(&[(0, 5), (3, 3), (-7, 9)], &[4, 3, -7]);
        round_trip::<u128>(&[(0, 1 << 40), (0, 1 << 40)], &[7, 1 << 40]);
        round_trip::<[u64; 4]>(&[(0, i64::MAX), (0, i64::MAX), (-5, 5)], &[i64::MAX, 1, -5]);
    }
}
