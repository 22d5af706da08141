-- Reopen the lines of these channels, if the channels may release. A line whose tag is below the lane's virtual time
-- continues at virtual time. If a channel may release only later, an alarm is set for that time.
CREATE OR REPLACE FUNCTION backlog_reopen (l lane_state, p_channels TEXT[], p_has_policies BOOLEAN, p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql SET enable_hashjoin TO on AS $$
BEGIN
    WITH found AS MATERIALIZED (
        SELECT u.name, x.tid FROM unnest(p_channels) u (name)
        CROSS JOIN LATERAL backlog_live(u.name, l.name) x
        WHERE (NOT x.is_open OR x.tag < l.v) AND x.ranges <> '{}'),
    rooms AS MATERIALIZED (
        SELECT r.* FROM channel_room(ARRAY(SELECT DISTINCT f.name FROM found f WHERE p_has_policies), p_now) r),
    later AS (INSERT INTO alarm (at, channel) SELECT r.again_at, r.channel FROM rooms r
        WHERE r.room = 0 AND r.again_at IS NOT NULL)
    UPDATE backlog b SET turn = nextval('turn'), is_open = TRUE, tag = GREATEST(b.tag, l.v)
    WHERE b.ctid = ANY (ARRAY(
        SELECT f.tid FROM found f LEFT JOIN rooms r ON r.channel = f.name WHERE COALESCE(r.room > 0, TRUE)));
END $$;
