-- Part of a fold: what it is time to try again, as message ids and as wakes with the channels they are for.
CREATE OR REPLACE FUNCTION postponed_read (
    p_tick tick, p_now BIGINT, p_limit INT,
    OUT message_ids BIGINT[], OUT wakes wake[], OUT channels TEXT[], OUT done_to BIGINT, OUT is_more BOOLEAN)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT array_agg(p.message_id) FILTER (WHERE p.message_id IS NOT NULL),
        array_agg(ROW(NULL, NULL, NULL, NULL, NULL, NULL, p.channel)::wake) FILTER (WHERE p.channel IS NOT NULL)
        || array_agg(ROW(NULL, NULL, p.lo_at, p.lo_id, 9223372036854775807, 9223372036854775807, p.channel)::wake)
            FILTER (WHERE p.channel IS NOT NULL AND p.lo_at IS NOT NULL),
        array_agg(p.channel) FILTER (WHERE p.channel IS NOT NULL),
        CASE WHEN COUNT(*) = p_limit THEN MAX(p.due_at) - 1 ELSE GREATEST(p_now, p_tick.postponed_to) END,
        COUNT(*) = p_limit
    INTO message_ids, wakes, channels, done_to, is_more
    FROM (
        SELECT * FROM postponed p WHERE p.due_at > p_tick.postponed_to AND p.due_at <= p_now ORDER BY p.due_at LIMIT p_limit) p;
END $$;
