-- The start of the transaction in Unix milliseconds. It is the default dequeue_at, so that the messages of one
-- transaction share it and keep the order of their ids.
CREATE OR REPLACE FUNCTION transaction_ms ()
RETURNS BIGINT LANGUAGE sql STABLE PARALLEL SAFE
RETURN FLOOR(EXTRACT(EPOCH FROM now()) * 1000)::BIGINT;
