-- The next p_limit names of channels after p_after: of those that have a policy, a place in the ring, messages or a tally.
CREATE OR REPLACE FUNCTION channel_names (p_after TEXT, p_limit INT)
RETURNS TEXT[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_names TEXT[] := '{}';
    v_name TEXT := p_after;
BEGIN
    FOR i IN 1 .. p_limit LOOP
        v_name := LEAST(
            (SELECT c.name FROM channel c WHERE c.name > v_name ORDER BY c.name LIMIT 1),
            (SELECT r.channel FROM ring r WHERE r.channel > v_name ORDER BY r.channel, r.turn LIMIT 1),
            (SELECT m.channel FROM message m WHERE NOT m.leased AND m.channel > v_name ORDER BY m.channel, m.dequeue_at, m.id LIMIT 1),
            (SELECT d.channel FROM dead d WHERE d.channel > v_name ORDER BY d.channel, d.id LIMIT 1),
            (SELECT t.channel FROM tally t WHERE t.channel > v_name ORDER BY t.channel LIMIT 1));
        EXIT WHEN v_name IS NULL;
        v_names := v_names || v_name;
    END LOOP;
    RETURN v_names;
END $$;
