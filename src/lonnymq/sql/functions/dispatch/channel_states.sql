-- The states of the channels for which messages are to be placed in a lane: whether the channel has a line, its next
-- tag, and how many messages it may release. If a message belongs before an entry of its channel that is already in
-- ready, because it is urgent or was committed late, the entries behind it are first moved back into the line.
CREATE OR REPLACE FUNCTION channel_states (
    l lane_state, p_entries entry[], p_has_policies BOOLEAN, p_now BIGINT)
RETURNS channel_state[] LANGUAGE plpgsql AS $$
DECLARE
    v_channels channel_state[];
    v_marks entry[];                        -- messages that have entries behind them in ready
BEGIN
    SELECT array_agg(ROW(k.channel, b.turn IS NOT NULL, c.tag IS NOT NULL, NULL, x.step,
            -- A channel that was empty joins one step after virtual time. So does one whose last entry is taken by an
            -- open dequeue, once virtual time has passed its next tag.
            CASE WHEN next.tag >= l.v THEN next.tag ELSE l.v + tag_step(1, x.step, 0) END)::channel_state),
        array_agg(ROW(k.id, 0, k.rank, k.at, 0, l.name, k.channel)::entry)
            FILTER (WHERE (last.rank, last.at, last.id) > (k.rank, k.at, k.id))
    INTO v_channels, v_marks
    FROM (SELECT DISTINCT ON (e.channel) e.* FROM unnest(p_entries) e ORDER BY e.channel, e.rank, e.at, e.id) k
    CROSS JOIN LATERAL (
        SELECT weight_step((
            SELECT c.weight FROM channel c WHERE p_has_policies AND c.name = k.channel)) AS step) x
    LEFT JOIN LATERAL (                     -- a message behind the head of its line is behind ready
        SELECT b.turn, (k.rank, k.at, k.id) >= (s.lo_rank, s.lo_at, s.lo_id) AS is_behind
        FROM backlog_live(k.channel, l.name) b
        CROSS JOIN LATERAL (SELECT (b.ranges[1]).*) s WHERE b.ranges <> '{}') b ON TRUE
    LEFT JOIN LATERAL (
        SELECT r.tag, r.cost, r.rank, r.at, r.id FROM ready r
        WHERE b.is_behind IS NOT TRUE AND r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
        ORDER BY r.channel DESC, r.tag DESC, r.id DESC LIMIT 1) last ON TRUE
    LEFT JOIN LATERAL (
        SELECT c.tag FROM recent_tag c
        WHERE b.turn IS NULL
            AND c.channel = k.channel AND c.lane = l.name AND c.tag >= l.v
        ORDER BY c.channel DESC, c.lane DESC, c.tag DESC LIMIT 1) c ON TRUE
    CROSS JOIN LATERAL (
        SELECT GREATEST(last.tag + tag_step(last.cost, x.step, last.id), c.tag) AS tag) next;
    IF v_marks IS NOT NULL THEN
        PERFORM ready_withdraw(l, v_marks, FALSE);
        SELECT array_agg(ROW(k.channel, k.has_line OR k.channel = ANY (ARRAY(SELECT m.channel FROM unnest(v_marks) m)),
            k.is_remembered, k.room, k.step, k.tag)::channel_state)
        INTO v_channels FROM unnest(v_channels) k;
    END IF;
    IF p_has_policies THEN
        SELECT array_agg(ROW(k.channel, k.has_line, k.is_remembered, r.room, k.step, k.tag)::channel_state)
        INTO v_channels FROM unnest(v_channels) k
        JOIN channel_room(ARRAY(SELECT k.channel FROM unnest(v_channels) k), p_now) r ON r.channel = k.channel;
    END IF;
    RETURN v_channels;
END $$;
