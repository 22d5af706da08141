-- What people did, the newest first: to a channel, if given. p_after: the id of the last row of the page before. A
-- login that is bound to channels must name one of them.
CREATE OR REPLACE FUNCTION audit_list (
    p_channel TEXT DEFAULT NULL, p_after BIGINT DEFAULT NULL, p_limit INT DEFAULT 100)
RETURNS TABLE (
    id BIGINT, at BIGINT, who TEXT, action TEXT, channel TEXT, target TEXT, details JSONB, outcome TEXT,
    ended_at BIGINT)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_after BIGINT := COALESCE(p_after, 9223372036854775807);
BEGIN
    PERFORM limit_check(p_limit, 10000);
    PERFORM list_check(p_channel);
    IF p_channel IS NULL THEN
        RETURN QUERY
        SELECT a.id, a.at, a.who, a.action, a.channel, a.target, a.details, a.outcome, a.ended_at
        FROM audit a WHERE a.id < v_after ORDER BY a.id DESC LIMIT p_limit;
    ELSE
        -- Compared as pairs, as in dead_find.
        RETURN QUERY
        SELECT a.id, a.at, a.who, a.action, a.channel, a.target, a.details, a.outcome, a.ended_at
        FROM audit a WHERE (a.channel, a.id) < (p_channel, v_after) AND (a.channel, a.id) > (p_channel, 0)
        ORDER BY a.channel DESC, a.id DESC LIMIT p_limit;
    END IF;
END $$;
