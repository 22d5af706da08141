-- The next p_limit channel names after p_after: channels that have a policy, waiting messages or dead letters, or that
-- were served.
CREATE OR REPLACE FUNCTION channel_names (p_after TEXT, p_limit INT)
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_names TEXT[] := '{}';
    v_name TEXT := p_after;
BEGIN
    FOR i IN 1 .. p_limit LOOP
        v_name := LEAST(
            (SELECT c.name FROM channel c WHERE c.name > v_name ORDER BY c.name LIMIT 1),
            (SELECT b.channel FROM backlog b
             WHERE b.channel > v_name AND b.ranges <> '{}' ORDER BY b.channel, b.lane, b.turn LIMIT 1),
            (SELECT r.channel FROM ready r WHERE r.channel > v_name ORDER BY r.channel, r.tag, r.id LIMIT 1),
            (SELECT s.channel FROM scheduled s WHERE s.channel > v_name ORDER BY s.channel, s.at, s.id LIMIT 1),
            (SELECT d.channel FROM dead d WHERE d.channel > v_name ORDER BY d.channel, d.id LIMIT 1),
            (SELECT t.channel FROM tally t WHERE t.channel > v_name ORDER BY t.channel LIMIT 1));
        EXIT WHEN v_name IS NULL;
        v_names := v_names || v_name;
    END LOOP;
    RETURN ARRAY(
        SELECT DISTINCT x.name COLLATE "C"
        FROM (
            SELECT n FROM unnest(v_names) n
            UNION ALL
            SELECT s.channel FROM served_by b CROSS JOIN LATERAL unnest(b.shares) s
            WHERE s.channel COLLATE "C" > p_after) x (name)
        ORDER BY 1 LIMIT p_limit);
END $$;
