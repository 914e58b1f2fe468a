CREATE TABLE retryguard_outbox (
    -- The order of the events of a lane.
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- What a consumer knows the event by.
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    -- 'k' and the key, or 'u' and an identity of its own where there is no key.
    lane TEXT NOT NULL,
    topic TEXT NOT NULL,
    key TEXT,
    -- A JSON array of pairs.
    headers TEXT NOT NULL,
    payload BYTEA NOT NULL,
    written_at TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp(),
    -- 0 pending, 1 published, 2 parked.
    state SMALLINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    -- The last wait before another try, in microseconds.
    waited BIGINT NOT NULL DEFAULT 0,
    error TEXT,
    ended_at TIMESTAMPTZ
);
CREATE INDEX retryguard_outbox_pending ON retryguard_outbox (lane, number) WHERE state = 0;
CREATE INDEX retryguard_outbox_published ON retryguard_outbox (ended_at) WHERE state = 1;
CREATE INDEX retryguard_outbox_parked ON retryguard_outbox (number) WHERE state = 2;

-- One row for every lane that may have something to publish.
CREATE TABLE retryguard_outbox_lanes (
    lane TEXT PRIMARY KEY,
    -- When it may be claimed: after a lease, after a back-off, or never while it is held.
    ready_at TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp(),
    -- Another for every claim: a worker whose lease has run out is told apart from its successor.
    token BIGINT NOT NULL DEFAULT 0,
    -- Claims since a worker last said how it went.
    claims INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX retryguard_outbox_ready ON retryguard_outbox_lanes (ready_at);
CREATE SEQUENCE retryguard_outbox_tokens;

CREATE TABLE retryguard_inbox (
    consumer TEXT NOT NULL,
    id TEXT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (consumer, id)
);
CREATE INDEX retryguard_inbox_age ON retryguard_inbox (seen_at);
