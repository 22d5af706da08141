-- A moment as the queue writes it: Unix milliseconds, rounded down.
CREATE OR REPLACE FUNCTION to_epoch (p_at TIMESTAMPTZ)
RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN FLOOR(EXTRACT(EPOCH FROM p_at) * 1000)::BIGINT;
