-- Dead messages in the order of their ids, above p_after: of a channel, with an error LIKE p_error, of a lane or of a
-- group of dead_groups, if given. Without their content: message_get shows it.
CREATE OR REPLACE FUNCTION dead_list (
    p_channel TEXT DEFAULT NULL, p_error TEXT DEFAULT NULL, p_after BIGINT DEFAULT 0, p_limit INT DEFAULT 100,
    p_lane TEXT DEFAULT NULL, p_fingerprint TEXT DEFAULT NULL)
RETURNS TABLE (
    id BIGINT, channel TEXT, dead_at BIGINT, created_at BIGINT, attempts INT, max_attempts INT, consumer TEXT,
    error TEXT,
    past_errors JSONB, dedupe_key TEXT, headers JSONB, content_bytes INT, lane TEXT, priority INT, cost INT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM limit_check(p_limit, 10000);
    PERFORM list_check(p_channel);
    RETURN QUERY
    SELECT d.id, d.channel, d.dead_at, d.created_at, d.attempts, d.max_attempts, d.consumer, d.error, d.past_errors,
        d.dedupe_key, d.headers, octet_length(d.content), d.lane, d.priority::INT, d.cost
    FROM unnest(dead_find(p_channel, p_error, COALESCE(p_after, 0), p_limit, p_lane, p_fingerprint)) u (id)
    CROSS JOIN LATERAL (SELECT * FROM dead d WHERE d.id = u.id OFFSET 0) d
    ORDER BY d.id;
END $$;
