CREATE TABLE retryguard_idempotency (
    -- SHA-256 of namespace, principal, route and key.
    id BLOB PRIMARY KEY,
    -- SHA-256 of the request that the key was first used for.
    fingerprint BLOB NOT NULL,
    -- Grows with every claim: a holder whose time has run out is told apart from its successor.
    token INTEGER NOT NULL,
    -- Microseconds since the Unix epoch.
    locked_until INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- The final response; no status while the request is worked on.
    status INTEGER,
    headers BLOB,
    body BLOB
) WITHOUT ROWID;
CREATE INDEX retryguard_idempotency_expiry ON retryguard_idempotency (expires_at);
