-- The channels that a claim takes from: those in p_channels, or those whose whole name matches the regular expression
-- p_pattern and that have messages in a line that may release or in ready; at most 1,000 of these, the ones whose turn
-- comes first. NULL: all channels.
CREATE OR REPLACE FUNCTION claim_channels (p_channels TEXT[], p_pattern TEXT, p_lanes TEXT[])
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    c_most CONSTANT INT := 1000;
    v_lanes lane_state[];
    v_whole TEXT;
BEGIN
    IF p_channels IS NOT NULL THEN
        IF p_pattern IS NOT NULL THEN
            PERFORM refuse('LM010', 'p_channels and p_pattern are both given', 'Give one of them.');
        ELSIF cardinality(p_channels) NOT BETWEEN 1 AND c_most THEN
            PERFORM refuse('LM005', format('p_channels has %s names', cardinality(p_channels)),
                'Name 1 to 1,000 channels, or give a p_pattern.');
        END IF;
        PERFORM channel_check(u.name, format(' (channel %s of %s)', u.ord, cardinality(p_channels)))
        FROM unnest(p_channels) WITH ORDINALITY u (name, ord);
        RETURN ARRAY(SELECT DISTINCT unnest(p_channels));
    ELSIF p_pattern IS NULL THEN
        RETURN NULL;
    END IF;
    v_whole := pattern_whole(p_pattern);
    v_lanes := ARRAY(
        SELECT l FROM unnest((SELECT t.lanes FROM tick t ORDER BY t.id DESC LIMIT 1)) l
        WHERE p_lanes IS NULL OR l.name = ANY (p_lanes));
    RETURN ARRAY(
        SELECT x.channel
        FROM (
            SELECT b.channel, b.tag FROM unnest(v_lanes) n
            CROSS JOIN LATERAL (
                SELECT b.channel, b.tag - n.v AS tag FROM backlog b
                WHERE b.is_open AND b.lane = n.name AND b.tag >= n.v AND b.channel ~ v_whole
                ORDER BY b.lane, b.tag, b.turn LIMIT c_most) b
            UNION ALL
            SELECT r.channel, r.tag FROM unnest(v_lanes) n
            CROSS JOIN LATERAL (
                SELECT r.channel, MIN(r.tag) - n.v AS tag FROM ready r
                WHERE r.lane = n.name AND r.tag >= n.floor AND r.channel ~ v_whole
                GROUP BY r.channel) r) x
        GROUP BY x.channel ORDER BY MIN(x.tag) LIMIT c_most);
END $$;
