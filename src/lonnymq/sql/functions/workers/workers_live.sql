-- The workers that have reported in the last 30 seconds.
CREATE OR REPLACE FUNCTION workers_live (p_now BIGINT)
RETURNS SETOF worker LANGUAGE sql STABLE AS $$
    SELECT * FROM worker w WHERE w.seen_at > p_now - 30000
$$;
