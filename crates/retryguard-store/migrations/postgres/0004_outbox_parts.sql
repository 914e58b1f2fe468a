-- Which part of the outbox an event belongs to: a worker takes whole parts at once. All events of a key are in one part.
-- None where an earlier version wrote the event; its lane has a row then.
ALTER TABLE retryguard_outbox ADD COLUMN part SMALLINT;
CREATE INDEX retryguard_outbox_part ON retryguard_outbox (part, number) WHERE state = 0;

CREATE TABLE retryguard_outbox_parts (
    part SMALLINT PRIMARY KEY,
    -- When it may be claimed: after a lease.
    ready_at TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp(),
    -- When `ready_at` was set. Later than now means that the clock was set back.
    since TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp(),
    -- Another for every claim, 0 while it is free.
    token BIGINT NOT NULL DEFAULT 0,
    -- Claims since a worker last reported.
    claims INTEGER NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO retryguard_outbox_parts (part) SELECT generate_series(0, 63);

-- A row of this table is the exception: a key whose event failed, is held, or takes long.
ALTER TABLE retryguard_outbox_lanes ADD COLUMN since TIMESTAMPTZ NOT NULL DEFAULT statement_timestamp();
CREATE INDEX retryguard_outbox_since ON retryguard_outbox_lanes (since);
