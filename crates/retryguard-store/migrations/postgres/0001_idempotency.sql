CREATE TABLE retryguard_idempotency (
    -- SHA-256 of namespace, principal, route and key.
    id BYTEA PRIMARY KEY,
    -- SHA-256 of the request that the key was first used for.
    fingerprint BYTEA NOT NULL,
    -- Grows with every claim: a holder whose time has run out is told apart from its successor.
    token BIGINT NOT NULL,
    locked_until TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    -- The final response; no status while the request is worked on.
    status SMALLINT,
    headers BYTEA,
    body BYTEA
);
CREATE INDEX retryguard_idempotency_expiry ON retryguard_idempotency (expires_at);
