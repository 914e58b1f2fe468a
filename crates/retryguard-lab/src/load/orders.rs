//! The orders that users place: the same ones for the same seed, in the same order.

use serde_json::json;

use crate::chance::SharedRandom;

/// An order ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct PreparedOrder {
    pub(super) key: String,
    pub(super) body: Vec<u8>,
    /// Whether it is sent once more afterwards, by a user who is not sure.
    pub(super) replayed: bool,
}

/// Writes orders.
#[derive(Debug)]
pub(super) struct OrderMaker {
    dice: SharedRandom,
    run: u64,
    goods: u32,
    replays: f64,
}

impl OrderMaker {
    pub(super) fn new(seed: u64, goods: u32, replays: f64) -> Self {
        let dice = SharedRandom::new(seed, "orders");
        Self {
            run: dice.bits() >> 32,
            dice,
            goods,
            replays,
        }
    }

    pub(super) fn sheet(&self, number: u64) -> PreparedOrder {
        let kinds = 1 + self.dice.below(3);
        let items: Vec<_> = (0..kinds)
            .map(|_| json!({"sku": self.dice.below(u64::from(self.goods)), "quantity": 1 + self.dice.below(3)}))
            .collect();
        let order = format!("{:08x}-{number}", self.run);
        PreparedOrder {
            body: json!({"order": order, "items": items}).to_string().into_bytes(),
            key: format!("order-{order}"),
            replayed: self.dice.happens(self.replays),
        }
    }
}
