//! What both databases do with the same words. SQLite understands PostgreSQL's names of parameters.

/// The methods whose statements are the same on both; `$pool` is the type of the connections.
macro_rules! statements {
    ($database:ty) => {
        impl $database {
            pub(crate) async fn insert_order(
                &self,
                reference: &str,
                amount: i64,
                key: Option<&str>,
            ) -> sqlx::Result<i64> {
                sqlx::query_scalar(
                    "INSERT INTO orders (reference, amount, status, at, key) VALUES ($1, $2, 'pending', $3, $4)
                     ON CONFLICT (key) DO UPDATE SET status = 'pending' RETURNING number",
                )
                .bind(reference)
                .bind(amount)
                .bind($crate::clock::wall_millis())
                .bind(key)
                .fetch_one(&self.pool)
                .await
            }

            pub(crate) async fn set_status(&self, number: i64, status: &str) -> sqlx::Result<()> {
                sqlx::query("UPDATE orders SET status = $1 WHERE number = $2")
                    .bind(status)
                    .bind(number)
                    .execute(&self.pool)
                    .await
                    .map(|_| ())
            }

            pub(crate) async fn order(&self, reference: &str) -> sqlx::Result<Option<$crate::database::OrderRow>> {
                let row: Option<(String, String, i64)> = sqlx::query_as(
                    "SELECT reference, status, amount FROM orders WHERE reference = $1 ORDER BY number DESC LIMIT 1",
                )
                .bind(reference)
                .fetch_optional(&self.pool)
                .await?;
                Ok(row.map(|(order, status, amount)| $crate::database::OrderRow {
                    order,
                    status,
                    amount,
                }))
            }

            pub(crate) async fn count(&self, table: $crate::database::Table) -> sqlx::Result<(u64, u64)> {
                let (all, distinct): (i64, i64) = sqlx::query_as(table.count()).fetch_one(&self.pool).await?;
                Ok((
                    u64::try_from(all).unwrap_or_default(),
                    u64::try_from(distinct).unwrap_or_default(),
                ))
            }
        }
    };
}

pub(super) use statements;
