-- Messages of limited channels were put into ready, or under a limit over all channels any: list them as busy.
CREATE OR REPLACE FUNCTION slots_take (p_put ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    WITH new AS MATERIALIZED (
        SELECT n.name, array_agg(ROW(e.id, e.generation)::stub) AS stubs
        FROM unnest(p_put) e CROSS JOIN LATERAL (VALUES (e.channel), ('')) n (name)
        WHERE e.is_limited GROUP BY n.name)
    UPDATE slots s
    SET turn = nextval('turn'), busy = s.busy || new.stubs,
        out = CASE WHEN EXISTS (SELECT FROM channel c WHERE c.name = s.channel AND c.release_interval_ms > 0)
            THEN new.stubs[1] ELSE s.out END
    FROM new
    CROSS JOIN LATERAL (SELECT s.turn FROM slots s WHERE s.channel = new.name ORDER BY s.turn DESC LIMIT 1) last
    WHERE s.channel = new.name AND s.turn = last.turn;
END $$;
