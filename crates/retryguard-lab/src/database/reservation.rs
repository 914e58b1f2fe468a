//! What becomes of a reservation, as one decision for both databases: they only lock, count and write rows.

/// What a try to lock the rows of the goods came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// All rows are locked.
    Held,
    /// Another reservation holds at least one of them: try again.
    Busy,
    /// One of the goods is not on sale.
    Unknown,
}

impl Lock {
    /// Of so many kinds of goods `locked` rows were locked, and `on_sale` have a row at all. A try locks the rows of all kinds on
    /// sale, or none where another holds one.
    pub(super) const fn of(wanted: usize, locked: usize, on_sale: usize) -> Self {
        if locked == wanted {
            Self::Held
        } else if locked == 0 && on_sale == wanted {
            Self::Busy
        } else {
            Self::Unknown
        }
    }
}

/// What the statement came to that takes the goods off the shelves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StockResult {
    /// Every kind was taken: commit.
    Done,
    /// There is not enough of one kind: roll back and free the rows.
    TooFew,
    /// Another process took the rows over, because this holder was considered dead: roll back; nothing is left to free.
    Lost,
}

impl StockResult {
    /// Of so many kinds of goods `rows` were taken; `None` where the check of a shelf refused the statement.
    pub(super) const fn of(wanted: usize, rows: Option<u64>) -> Self {
        match rows {
            None => Self::TooFew,
            Some(rows) if rows == wanted as u64 => Self::Done,
            Some(_) => Self::Lost,
        }
    }
}

/// The rows that a statement wrote; `None` where a check of the table refused it.
pub(super) fn written(rows: sqlx::Result<u64>) -> sqlx::Result<Option<u64>> {
    match rows {
        Ok(rows) => Ok(Some(rows)),
        Err(sqlx::Error::Database(error)) if error.is_check_violation() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every shop of up to four kinds of goods: which are on sale, and which are held by another reservation.
    #[test]
    fn a_lock_is_what_the_rows_say() {
        for wanted in 1_usize..=4 {
            for on_sale in 0_u32..1 << wanted {
                for held in (0_u32..1 << wanted).filter(|held| held & !on_sale == 0) {
                    let count = |rows: u32| rows.count_ones() as usize;
                    let locked = if held == 0 { count(on_sale) } else { 0 };
                    let expected = match (count(on_sale) == wanted, held) {
                        (false, _) => Lock::Unknown,
                        (true, 0) => Lock::Held,
                        (true, _) => Lock::Busy,
                    };
                    assert_eq!(
                        Lock::of(wanted, locked, count(on_sale)),
                        expected,
                        "{wanted} wanted, on sale {on_sale:b}, held {held:b}"
                    );
                }
            }
        }
    }

    #[test]
    fn goods_are_taken_all_or_not_at_all() {
        for wanted in 1_usize..=4 {
            assert_eq!(StockResult::of(wanted, None), StockResult::TooFew);
            for rows in 0..=4 {
                let all = rows == wanted as u64;
                let expected = if all { StockResult::Done } else { StockResult::Lost };
                assert_eq!(StockResult::of(wanted, Some(rows)), expected);
            }
        }
    }
}
