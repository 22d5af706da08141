-- The next p_limit channel names after p_after that begin with p_prefix: channels that have a policy, waiting messages
-- or dead letters, or that were served. In the order of names, those with a prefix are together, from the prefix on.
CREATE OR REPLACE FUNCTION channel_names (p_after TEXT, p_limit INT, p_prefix TEXT DEFAULT '')
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_names TEXT[] := '{}';
    v_name TEXT;
    -- No name is between p_after and p_after with the lowest character.
    v_from TEXT := GREATEST(p_after || E'\x01' COLLATE "C", p_prefix COLLATE "C");
BEGIN
    FOR i IN 1 .. p_limit LOOP
        v_name := LEAST(
            (SELECT c.name FROM channel c WHERE c.name >= v_from ORDER BY c.name LIMIT 1),
            (SELECT b.channel FROM backlog b
             WHERE b.channel >= v_from AND b.ranges <> '{}' ORDER BY b.channel, b.lane, b.turn LIMIT 1),
            (SELECT r.channel FROM ready r WHERE r.channel >= v_from ORDER BY r.channel, r.tag, r.id LIMIT 1),
            (SELECT s.channel FROM scheduled s WHERE s.channel >= v_from ORDER BY s.channel, s.at, s.id LIMIT 1),
            (SELECT d.channel FROM dead d WHERE d.channel >= v_from ORDER BY d.channel, d.id LIMIT 1),
            (SELECT t.channel FROM tally t WHERE t.channel >= v_from ORDER BY t.channel LIMIT 1));
        EXIT WHEN v_name IS NULL OR NOT starts_with(v_name, p_prefix);
        v_names := v_names || v_name;
        v_from := v_name || E'\x01';
    END LOOP;
    RETURN ARRAY(
        SELECT DISTINCT x.name COLLATE "C"
        FROM (
            SELECT n FROM unnest(v_names) n
            UNION ALL
            SELECT s.channel FROM served_by b CROSS JOIN LATERAL unnest(b.shares) s
            WHERE s.channel COLLATE "C" > p_after AND starts_with(s.channel, p_prefix)) x (name)
        ORDER BY 1 LIMIT p_limit);
END $$;
