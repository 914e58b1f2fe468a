-- The whole length of the lock, in microseconds: more than that left means that the clock was set back.
ALTER TABLE retryguard_idempotency ADD COLUMN locked_for INTEGER;
