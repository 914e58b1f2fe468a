-- When `ready_at` was set. Later than now means that the clock was set back.
ALTER TABLE retryguard_outbox_lanes ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
CREATE INDEX retryguard_outbox_since ON retryguard_outbox_lanes (since);
DROP TRIGGER retryguard_outbox_lane;
CREATE TRIGGER retryguard_outbox_lane AFTER INSERT ON retryguard_outbox BEGIN
    INSERT INTO retryguard_outbox_lanes (lane, ready_at, since) VALUES (new.lane, new.written_at, new.written_at)
    ON CONFLICT (lane) DO NOTHING;
END;
