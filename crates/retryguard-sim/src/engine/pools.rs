//! Connections: a request makes a call once it has one.

use std::collections::VecDeque;

use super::{Engine, JobKey, Parent, calls::Origin, descend, server::PoolState};

/// A call that a request will make once a connection is free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) job: JobKey,
    pub(super) edge: usize,
    pub(super) copy: u32,
    pub(super) optional: bool,
}

impl Engine<'_> {
    /// Makes a call for a request, once there is a connection.
    pub(super) fn make_call(&mut self, planned: Planned) {
        let Some(job) = self.jobs.get(planned.job) else {
            return;
        };
        let index = job.service as usize;
        let mut pool = None;
        if let Some(rule) = self.world.services[index].pool {
            let number = if rule.per_target { planned.edge } else { 0 };
            let server = &mut self.servers[index];
            while server.pools.len() <= number {
                server.pools.push(PoolState {
                    free: rule.size,
                    waiting: VecDeque::new(),
                });
            }
            if server.pools[number].free == 0 {
                server.pools[number].waiting.push_back(planned);
                return;
            }
            server.pools[number].free -= 1;
            pool = Some(u32::try_from(number).expect("a world has few edges"));
        }
        self.place_call(planned, pool);
    }

    fn place_call(&mut self, planned: Planned, pool: Option<u32>) {
        let job = self.jobs.get(planned.job).expect("looked at before");
        let way = descend(planned.edge as u64, u64::from(planned.copy));
        let origin = Origin {
            edge: planned.edge,
            peer: job.instance,
            parent: Parent::Job {
                job: planned.job,
                optional: planned.optional,
            },
            key: descend(job.key, way),
            lineage: descend(job.lineage, way),
            deadline: if self.lines[planned.edge].client_policy.oracle {
                job.ends.min(job.deadline)
            } else {
                job.deadline
            },
            criticality: job.criticality,
            counted: job.counted,
            original: job.original,
            idempotent: job.idempotent,
            pool,
        };
        self.start_call(origin);
    }

    /// A call gives its connection back: to the next request that waits for one and still wants it.
    #[inline]
    pub(super) fn leave_pool(&mut self, pool: Option<u32>, edge: u32) {
        if let Some(number) = pool {
            self.free_connection(number, edge as usize);
        }
    }

    fn free_connection(&mut self, number: u32, edge: usize) {
        let owner = self.world.services.iter().position(|service| {
            service
                .steps
                .iter()
                .any(|step| step.choices.iter().any(|(_, to)| *to == Some(edge)))
        });
        let owner = owner.expect("an edge with a pool belongs to a service");
        while let Some(next) = self.servers[owner].pools[number as usize].waiting.pop_front() {
            if self.jobs.get(next.job).is_some() {
                return self.place_call(next, Some(number));
            }
        }
        self.servers[owner].pools[number as usize].free += 1;
    }
}
