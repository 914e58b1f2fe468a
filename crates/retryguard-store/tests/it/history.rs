//! Decides whether what clients saw of one key could have come from a store that does every request once.
//!
//! It shares no code with the store. A key is a register that is empty or holds one answer of one request. Every
//! request that a client sent is an operation with a beginning and, if an answer came, an end. The history is right if
//! the operations can be put into one order that agrees with the real one (what ended before another began comes
//! first), in which every answer is what the register holds, and after which the effects in the database are the
//! register's content: none, or exactly the one. The search is that of Wing and Gong, "Testing and Verifying Concurrent
//! Objects", Journal of Parallel and Distributed Computing 17, 1993.

use std::collections::{HashMap, HashSet};

/// What a client saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The request was done, and this is its effect.
    First(String),
    /// It was done before, and this was its effect.
    Replayed(String),
    /// The key belongs to another request.
    OtherRequest,
    /// Refused, with the word that nothing was done.
    Refused,
    /// No answer, or one that does not say whether anything was done.
    Unknown,
}

/// One request as its client saw it. Moments are of one counter for all clients.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Which request it is: the same for every duplicate.
    pub(crate) request: String,
    pub(crate) began: u64,
    /// None where no answer came.
    pub(crate) ended: Option<u64>,
    pub(crate) seen: Seen,
}

type Register = Option<(String, String)>;

/// Says what is wrong with the history of one key, given the effects that the database holds.
pub(crate) fn check(history: &[Operation], effects: &[String]) -> Result<(), String> {
    assert!(history.len() <= 64, "a key has at most 64 operations");
    if effects.len() > 1 {
        return Err(format!("{} effects: {effects:?}", effects.len()));
    }
    let search = Search {
        history,
        effect: effects.first(),
    };
    let mut dead = HashSet::new();
    if search.go(0, None, &mut dead) {
        return Ok(());
    }
    Err(format!(
        "no order explains the answers, with the effects {effects:?}: {history:#?}"
    ))
}

/// Checks every key.
pub(crate) fn check_all(
    histories: &HashMap<String, Vec<Operation>>,
    effects: &HashMap<String, Vec<String>>,
) -> Result<(), String> {
    for key in effects.keys() {
        if !histories.contains_key(key) {
            return Err(format!("an effect of {key}, which no client asked for"));
        }
    }
    for (key, history) in histories {
        let effects = effects.get(key).map_or(&[][..], Vec::as_slice);
        check(history, effects).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(())
}

struct Search<'a> {
    history: &'a [Operation],
    effect: Option<&'a String>,
}

impl Search<'_> {
    /// Whether the operations that are not in `done` can follow.
    fn go(&self, done: u64, register: Register, dead: &mut HashSet<(u64, Register)>) -> bool {
        if done.count_ones() as usize == self.history.len() {
            return register.as_ref().map(|(_, effect)| effect) == self.effect;
        }
        if dead.contains(&(done, register.clone())) {
            return false;
        }
        for (place, operation) in self.history.iter().enumerate() {
            if done & (1 << place) != 0 || !self.may_be_next(done, operation) {
                continue;
            }
            for next in self.outcomes(operation, &register) {
                if self.go(done | (1 << place), next, dead) {
                    return true;
                }
            }
        }
        dead.insert((done, register));
        false
    }

    /// Nothing that is still to come has ended before it began.
    fn may_be_next(&self, done: u64, operation: &Operation) -> bool {
        let mut others = self.history.iter().enumerate();
        !others.any(|(place, other)| {
            done & (1 << place) == 0 && other.ended.is_some_and(|ended| ended < operation.began)
        })
    }

    /// What the register may hold after an operation that was seen like this; none where that cannot be.
    fn outcomes(&self, operation: &Operation, register: &Register) -> Vec<Register> {
        let after = |effect: &String| Some((operation.request.clone(), effect.clone()));
        match (&operation.seen, register) {
            (Seen::First(effect), None) => vec![after(effect)],
            (Seen::First(_), Some(_)) | (Seen::Replayed(_), None) => Vec::new(),
            (Seen::Replayed(effect), Some((request, held))) => {
                let right = effect == held && *request == operation.request;
                if right { vec![register.clone()] } else { Vec::new() }
            }
            (Seen::OtherRequest, Some((request, _))) => {
                let right = *request != operation.request;
                if right { vec![register.clone()] } else { Vec::new() }
            }
            // The other request may hold the key at that moment without being done.
            (Seen::OtherRequest, None) => {
                let others = self.history.iter();
                let other = others.filter(|other| other.request != operation.request);
                if other.count() > 0 { vec![None] } else { Vec::new() }
            }
            (Seen::Refused, _) => vec![register.clone()],
            // It was not done, or it was.
            (Seen::Unknown, None) => {
                let mut all = vec![None];
                all.extend(self.effect.map(after));
                all
            }
            (Seen::Unknown, Some(_)) => vec![register.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(began: u64, ended: u64, seen: Seen) -> Operation {
        Operation {
            request: "a".to_owned(),
            began,
            ended: Some(ended),
            seen,
        }
    }

    fn first(effect: &str) -> Seen {
        Seen::First(effect.to_owned())
    }

    fn replayed(effect: &str) -> Seen {
        Seen::Replayed(effect.to_owned())
    }

    fn one(effect: &str) -> Vec<String> {
        vec![effect.to_owned()]
    }

    #[test]
    fn right_histories_pass() {
        check(&[], &[]).unwrap();
        let history = [
            operation(0, 5, Seen::Refused),
            operation(1, 9, first("x")),
            operation(2, 11, replayed("x")),
            operation(12, 13, replayed("x")),
        ];
        check(&history, &one("x")).unwrap();
        // The answer was lost, and the effect is there.
        let history = [
            operation(0, 2, Seen::Unknown),
            operation(3, 4, Seen::Refused),
            operation(5, 6, replayed("x")),
        ];
        check(&history, &one("x")).unwrap();
        // The answer was lost, and nothing was done.
        check(&history[..2], &[]).unwrap();
        check(
            &[operation(0, 2, Seen::Unknown), operation(3, 4, first("y"))],
            &one("y"),
        )
        .unwrap();
    }

    #[test]
    fn a_request_whose_answer_was_lost_may_be_done_later() {
        let mut late = operation(0, 0, Seen::Unknown);
        late.ended = None;
        check(&[late, operation(3, 4, Seen::Refused)], &one("x")).unwrap();
    }

    #[test]
    fn wrong_histories_do_not_pass() {
        let wrong = |history: &[Operation], effects: &[String]| check(history, effects).unwrap_err();
        // Done twice.
        let twice = [operation(0, 1, first("x")), operation(2, 3, first("y"))];
        wrong(&twice, &["x".to_owned(), "y".to_owned()]);
        // Acknowledged and lost.
        wrong(&[operation(0, 1, first("x"))], &[]);
        wrong(&[operation(0, 1, first("x"))], &one("y"));
        // Acknowledged twice as the first.
        wrong(
            &[operation(0, 1, first("x")), operation(2, 3, first("x"))],
            &one("x"),
        );
        // A replay of what was not there yet.
        wrong(
            &[operation(0, 1, replayed("x")), operation(2, 3, first("x"))],
            &one("x"),
        );
        // A replay of another effect.
        wrong(
            &[operation(0, 1, first("x")), operation(2, 3, replayed("y"))],
            &one("x"),
        );
        // Done, although it was refused.
        wrong(&[operation(0, 1, Seen::Refused)], &one("x"));
        // Forgotten: it is done again after its answer, although the answer was lost.
        wrong(
            &[operation(0, 1, replayed("x")), operation(2, 3, first("y"))],
            &one("y"),
        );
        // Another request, where there is none.
        wrong(&[operation(0, 1, Seen::OtherRequest)], &[]);
    }

    #[test]
    fn another_request_never_gets_the_answer() {
        let mut other = operation(2, 3, replayed("x"));
        other.request = "b".to_owned();
        let history = [operation(0, 1, first("x")), other.clone()];
        check(&history, &one("x")).unwrap_err();
        other.seen = Seen::OtherRequest;
        check(&[operation(0, 1, first("x")), other], &one("x")).unwrap();
    }
}
