-- The moment this is called: what dequeues, leases and intervals go by. The transaction's own time would let a long
-- transaction break an interval and hand out leases that are old already.
CREATE OR REPLACE FUNCTION clock_ms ()
RETURNS BIGINT LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
