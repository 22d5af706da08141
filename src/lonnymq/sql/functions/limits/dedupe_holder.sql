-- The message, other than p_id, that holds a key at p_now; NULL: none does. Locks as dedupe_holds does.
CREATE OR REPLACE FUNCTION dedupe_holder (p_channel TEXT, p_key TEXT, p_id BIGINT, p_now BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    d dedupe;
BEGIN
    SELECT * INTO d FROM dedupe x WHERE x.channel = p_channel AND x.key = p_key
    ORDER BY x.channel DESC, x.key DESC, x.turn DESC LIMIT 1;
    RETURN CASE WHEN d.message_id <> p_id AND dedupe_holds(d, p_now) THEN d.message_id END;
END $$;
