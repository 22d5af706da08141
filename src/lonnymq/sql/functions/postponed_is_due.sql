-- Whether it is time to try again something a fold had to leave.
CREATE OR REPLACE FUNCTION postponed_is_due (p_tick tick, p_now BIGINT)
RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM postponed p WHERE p.due_at > p_tick.postponed_to AND p.due_at <= p_now)
$$;
