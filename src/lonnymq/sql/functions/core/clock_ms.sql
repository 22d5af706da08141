-- The current time in Unix milliseconds, for dequeues, leases and intervals. It is not the transaction's start time:
-- with that, a long transaction would break an interval and hand out leases that are already old.
CREATE OR REPLACE FUNCTION clock_ms ()
RETURNS BIGINT LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
