//! Which of several parts a target belongs to.

use crate::domain::target::TargetName;

/// The most parts.
pub const MOST_SHARDS: usize = 64;

/// One of several parts of all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from zero.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

impl Shard {
    /// Whether a target belongs to this part. Every controller computes the same answer from the name alone, also for a target
    /// of a former configuration that is found in a data plane. The hash is FNV-1a (Fowler, Noll, Vo), because the hash of the
    /// standard library may change from one version to the next.
    #[must_use]
    pub fn owns(self, target: &TargetName) -> bool {
        let hash = target
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        hash % self.of as u64 == self.number as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_one_shard_and_shards_are_of_one_size() {
        for of in [1, 2, 3, 7, MOST_SHARDS] {
            let mut sizes = vec![0_u32; of];
            for number in 0..6_400 {
                let target = TargetName::new(&format!("service-{number}"));
                let owners: Vec<usize> = (0..of)
                    .filter(|number| Shard { number: *number, of }.owns(&target))
                    .collect();
                assert_eq!(owners.len(), 1);
                sizes[owners[0]] += 1;
            }
            let fair = 6_400 / u32::try_from(of).unwrap();
            assert!(
                sizes.iter().all(|size| *size > fair / 2 && *size < fair * 2),
                "{sizes:?}"
            );
        }
    }

    /// Controllers of two versions must agree during an upgrade.
    #[test]
    fn the_shard_of_a_name_never_changes() {
        let shard = |name: &str| {
            (0..64).find(|number| {
                Shard {
                    number: *number,
                    of: 64,
                }
                .owns(&TargetName::new(name))
            })
        };
        assert_eq!(
            [shard("reviews"), shard("ratings"), shard("")],
            [Some(22), Some(57), Some(37)]
        );
    }
}
