CREATE TABLE retryguard_outbox (
    -- The order of the events of a lane.
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    -- What a consumer knows the event by.
    id TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    -- 'k' and the key, or 'u' and an identity of its own where there is no key.
    lane TEXT NOT NULL,
    topic TEXT NOT NULL,
    key TEXT,
    -- A JSON array of pairs.
    headers TEXT NOT NULL,
    payload BLOB NOT NULL,
    -- All times are microseconds since the Unix epoch.
    written_at INTEGER NOT NULL,
    -- 0 pending, 1 published, 2 parked.
    state INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    -- The last wait before another try, in microseconds.
    waited INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    ended_at INTEGER
);
CREATE INDEX retryguard_outbox_pending ON retryguard_outbox (lane, number) WHERE state = 0;
CREATE INDEX retryguard_outbox_published ON retryguard_outbox (ended_at) WHERE state = 1;
CREATE INDEX retryguard_outbox_parked ON retryguard_outbox (number) WHERE state = 2;

-- One row for every lane that may have something to publish.
CREATE TABLE retryguard_outbox_lanes (
    lane TEXT PRIMARY KEY,
    -- When it may be claimed: after a lease, after a back-off, or never while it is held.
    ready_at INTEGER NOT NULL,
    -- Another for every claim: a worker whose lease has run out is told apart from its successor.
    token INTEGER NOT NULL DEFAULT 0,
    -- Claims since a worker last said how it went.
    claims INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX retryguard_outbox_ready ON retryguard_outbox_lanes (ready_at);

-- One statement writes an event and its lane, so that no crash comes between the two.
CREATE TRIGGER retryguard_outbox_lane AFTER INSERT ON retryguard_outbox BEGIN
    INSERT INTO retryguard_outbox_lanes (lane, ready_at) VALUES (new.lane, new.written_at)
    ON CONFLICT (lane) DO NOTHING;
END;

CREATE TABLE retryguard_inbox (
    consumer TEXT NOT NULL,
    id TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, id)
) WITHOUT ROWID;
CREATE INDEX retryguard_inbox_age ON retryguard_inbox (seen_at);
