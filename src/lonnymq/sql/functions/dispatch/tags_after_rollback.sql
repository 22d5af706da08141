-- New tags for entries that a rolled-back dequeue returned, once their channels have nothing else in ready: all entries
-- of a channel get the channel's next tag. The turns in which they were taken stay used up, as with a retry, so that a
-- rollback gains nothing. Entries above p_others, the first tag that nobody touched, had not had their turn yet (a
-- dispatch or a cancel was rolled back) and give their turns back. But no tag is below p_others: otherwise a channel
-- would get turns for messages that did not exist then.
CREATE OR REPLACE FUNCTION tags_after_rollback (l lane_state, p_back ready[], p_others BIGINT)
RETURNS ready[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(b.lane, k.tag, b.id, b.generation, b.rank, b.at, b.cost, b.is_limited, b.channel)::ready
        FROM (
            SELECT s.channel, s.backs, GREATEST(p_others, COALESCE(n.tag, GREATEST(s.after, c.tag)) - s.above) AS tag
            FROM (
                SELECT b.channel, array_agg(b) AS backs, MAX(b.tag + x.step) AS after,
                    COALESCE(SUM(x.step) FILTER (WHERE b.tag > p_others), 0) AS above
                FROM unnest(p_back) b
                CROSS JOIN LATERAL (
                    SELECT tag_step(b.cost, weight_step((
                        SELECT c.weight FROM channel c WHERE c.name = b.channel)), b.id) AS step) x
                GROUP BY b.channel) s
            LEFT JOIN LATERAL (
                SELECT b.tag FROM backlog_live(s.channel, l.name) b WHERE b.ranges <> '{}') n ON TRUE
            LEFT JOIN LATERAL (
                SELECT c.tag FROM recent_tag c WHERE c.channel = s.channel AND c.lane = l.name AND c.tag >= l.v
                ORDER BY c.channel DESC, c.lane DESC, c.tag DESC LIMIT 1) c ON TRUE) k
        CROSS JOIN unnest(k.backs) b);
END $$;
