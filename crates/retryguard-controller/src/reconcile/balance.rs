//! Which shards this process asks for, and which it hands over, so that a controller that starts later gets its share.
//!
//! Every process knows from its elections which process leads which shard. One that leads at least two fewer than another asks for
//! the difference, and the other hands a shard over while that is still true by its own count. Each move makes the numbers more
//! equal, so moves come to an end. A process that waits and leads nothing needs no entry anywhere: its request is the entry.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::reconcile::election::Leadership;

/// How many campaigns of a shard a process makes before it asks for it. That is about a term: a controller that is restarted again
/// and again must not be handed shards that then have no leader.
const CAMPAIGNS_BEFORE: u32 = 4;

/// What one process knows of all shards.
#[derive(Debug)]
pub(crate) struct Balance(Mutex<Vec<ShardEntry>>);

#[derive(Debug, Clone, Default)]
struct ShardEntry {
    holder: Holder,
    campaigns: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Unknown,
    Own,
    Other(String),
}

/// One shard's view of the balance.
#[derive(Debug, Clone)]
pub(crate) struct ShardBalance {
    all: Arc<Balance>,
    shard: usize,
}

impl Balance {
    /// The views of `shards` shards.
    pub(crate) fn of(shards: usize) -> Vec<ShardBalance> {
        let all = Arc::new(Self(Mutex::new(vec![ShardEntry::default(); shards])));
        let view = |shard| ShardBalance {
            all: Arc::clone(&all),
            shard,
        };
        (0..shards).map(view).collect()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<ShardEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardBalance {
    /// Whether this process should ask for the shard.
    pub(crate) fn asks(&self) -> bool {
        let entries = self.all.entries();
        entries[self.shard].campaigns >= CAMPAIGNS_BEFORE && wanted(&entries).contains(&self.shard)
    }

    /// Takes the answer of a campaign. Gives the controller that the shard is to be handed over to; from then on it counts as that
    /// one's.
    pub(crate) fn answered(&self, answer: &Leadership) -> Option<String> {
        let mut entries = self.all.entries();
        let entry = &mut entries[self.shard];
        entry.campaigns = entry.campaigns.saturating_add(1);
        entry.holder = match answer {
            Leadership::Leader { .. } => Holder::Own,
            Leadership::Follower { leader: Some(leader) } => Holder::Other(leader.clone()),
            Leadership::Follower { leader: None } => Holder::Unknown,
        };
        let Leadership::Leader {
            asked_by: Some(asked_by),
            ..
        } = answer
        else {
            return None;
        };
        let theirs = Holder::Other(asked_by.clone());
        let count = |holder: &Holder| entries.iter().filter(|entry| entry.holder == *holder).count();
        if count(&Holder::Own) < count(&theirs) + 2 {
            return None;
        }
        entries[self.shard].holder = theirs;
        Some(asked_by.clone())
    }
}

/// The shards that would have to move to this process until no other leads two more than it. Taken from the process that leads the
/// most, its last one first: processes that start at once begin their campaigns with its first ones.
fn wanted(entries: &[ShardEntry]) -> Vec<usize> {
    let mut own = 0;
    let mut others: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (shard, entry) in entries.iter().enumerate() {
        match &entry.holder {
            Holder::Own => own += 1,
            Holder::Other(name) => others.entry(name).or_default().push(shard),
            Holder::Unknown => {}
        }
    }
    let mut wanted = Vec::new();
    while let Some(most) = others.values_mut().max_by_key(|shards| shards.len())
        && most.len() >= own + 2
    {
        wanted.extend(most.pop());
        own += 1;
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that campaign in turn, on locks that end only by being handed over.
    struct Fleet {
        shards: Vec<(Option<usize>, Option<usize>)>,
        processes: Vec<Vec<ShardBalance>>,
    }

    impl Fleet {
        fn new(shards: usize) -> Self {
            Self {
                shards: vec![(None, None); shards],
                processes: Vec::new(),
            }
        }

        fn start(&mut self) {
            self.processes.push(Balance::of(self.shards.len()));
        }

        /// One campaign of every process for every shard; the number of shards that changed hands.
        fn round(&mut self) -> usize {
            let mut moved = 0;
            for (process, views) in self.processes.iter().enumerate() {
                for (shard, view) in views.iter().enumerate() {
                    let asks = view.asks();
                    let (holder, request) = &mut self.shards[shard];
                    let holder_now = *holder.get_or_insert(process);
                    let answer = if holder_now == process {
                        Leadership::Leader {
                            term: 1,
                            lasts: std::time::Duration::from_secs(1),
                            asked_by: request.take().map(|asked_by| asked_by.to_string()),
                        }
                    } else {
                        if asks {
                            *request = Some(process);
                        }
                        Leadership::Follower {
                            leader: Some(holder_now.to_string()),
                        }
                    };
                    if let Some(to) = view.answered(&answer) {
                        *holder = Some(to.parse().unwrap());
                        moved += 1;
                    }
                }
            }
            moved
        }

        fn counts(&self) -> Vec<usize> {
            let led = |process| {
                let holders = self.shards.iter().filter(|(holder, _)| *holder == Some(process));
                holders.count()
            };
            (0..self.processes.len()).map(led).collect()
        }
    }

    #[test]
    fn a_process_that_starts_later_gets_its_share_and_moves_come_to_an_end() {
        for shards in [1, 2, 3, 7, 64] {
            let mut fleet = Fleet::new(shards);
            fleet.start();
            fleet.round();
            assert_eq!(fleet.counts(), [shards]);
            for started_at_once in [1, 2, 3] {
                for _ in 0..started_at_once {
                    fleet.start();
                }
                let mut moved = 0;
                for _ in 0..16 {
                    moved += fleet.round();
                }
                let counts = fleet.counts();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(most - least <= 1, "{shards} shards: {counts:?}");
                assert!(moved <= shards, "{moved} moves of {shards} shards");
                assert_eq!(fleet.round() + fleet.round() + fleet.round(), 0, "{counts:?}");
            }
        }
    }

    #[test]
    fn nothing_is_asked_for_in_the_first_campaigns() {
        let mut fleet = Fleet::new(4);
        fleet.start();
        fleet.round();
        fleet.start();
        for _ in 0..CAMPAIGNS_BEFORE {
            assert_eq!(fleet.round(), 0);
        }
        fleet.round();
        fleet.round();
        assert_eq!(fleet.counts(), [2, 2]);
    }

    /// A request that has become old, of a process that has got its share elsewhere.
    #[test]
    fn a_request_of_a_process_that_leads_as_many_is_refused() {
        let views = Balance::of(4);
        let led = |asked_by: Option<&str>| Leadership::Leader {
            term: 1,
            lasts: std::time::Duration::from_secs(1),
            asked_by: asked_by.map(str::to_owned),
        };
        let leader = Some("b".to_owned());
        assert_eq!(views[0].answered(&led(None)), None);
        assert_eq!(views[1].answered(&led(None)), None);
        assert_eq!(views[2].answered(&Leadership::Follower { leader }), None);
        assert_eq!(views[0].answered(&led(Some("b"))), None);
        assert_eq!(views[0].answered(&led(Some("c"))), Some("c".to_owned()));
        assert_eq!(views[1].answered(&led(Some("d"))), None, "one is left");
    }
}
