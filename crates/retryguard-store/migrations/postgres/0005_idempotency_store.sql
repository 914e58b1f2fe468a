-- Stores a new key with its response. As a function, because its plan is then kept by the session also where it is called in one
-- message with the commit, which cannot be a prepared statement.
CREATE FUNCTION retryguard_idempotency_store(bytea, bytea, bigint, bigint, bigint, bytea, bytea) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retryguard_idempotency
        (id, fingerprint, token, locked_until, locked_for, expires_at, status, headers, body)
    VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'epoch', $3,
            clock_timestamp() + $4 * interval '1 microsecond', $5, $6, $7);
END $$;
