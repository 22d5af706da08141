-- Put messages into the lines of a lane. A line that was empty begins with the lowest tag of its messages; one that
-- was not keeps its tag, unless they were in ready before (p_is_back) and have a lower one. All these lines may
-- release, for now: the refill looks whether they may.
CREATE OR REPLACE FUNCTION line_add (p_lane TEXT, p_new ready[], p_is_back BOOLEAN)
RETURNS VOID LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- of what it has in hand
BEGIN
    INSERT INTO line (channel, lane, rank, at, id, generation, cost)
    SELECT e.channel, p_lane, e.rank, e.at, e.id, e.generation, e.cost FROM unnest(p_new) e
    ORDER BY e.channel, e.rank, e.at, e.id;
    WITH new AS MATERIALIZED (
        SELECT e.channel, COUNT(*) AS n, MIN(e.tag) AS tag, MIN(e.rank) = MAX(e.rank)
            AND (MIN(e.at) > 0) = (MAX(e.at) > 0) AS is_one,
            MIN(ARRAY[e.rank, e.at, e.id]) AS lo, MAX(ARRAY[e.rank, e.at, e.id]) AS hi
        FROM unnest(p_new) e GROUP BY e.channel),
    old AS MATERIALIZED (
        SELECT b.* FROM new
        CROSS JOIN LATERAL (
            SELECT b.ctid AS tid, b.channel, b.tag, NULLIF(b.stretches, '{}') AS stretches FROM backlog b
            WHERE b.channel = new.channel AND b.lane = p_lane
            ORDER BY b.channel DESC, b.lane DESC, b.turn DESC LIMIT 1) b),
    total AS MATERIALIZED (
        SELECT new.channel, old.tid, CASE WHEN old.stretches IS NULL THEN new.tag WHEN p_is_back
            THEN LEAST(new.tag, old.tag)
            ELSE old.tag END AS tag,
            new.n, CASE WHEN new.is_one AND old.stretches IS NULL
                THEN ARRAY[ROW(new.lo[1], new.lo[2], new.lo[3], new.hi[1], new.hi[2], new.hi[3])::stretch]
            WHEN new.is_one AND x.hi_rank = new.lo[1] AND (x.hi_at > 0) = (new.lo[2] > 0)
                    AND (x.lo_rank, x.lo_at, x.lo_id) <= (new.lo[1], new.lo[2], new.lo[3])
                THEN CASE WHEN (x.hi_at, x.hi_id) >= (new.hi[2], new.hi[3]) THEN old.stretches
                    ELSE trim_array(old.stretches, 1)
                    || ROW(x.lo_rank, x.lo_at, x.lo_id, new.hi[1], new.hi[2], new.hi[3])::stretch END
            ELSE stretches_add(COALESCE(old.stretches, '{}'), ARRAY(SELECT e FROM unnest(p_new) e
                WHERE e.channel = new.channel)) END
            AS stretches
        FROM new LEFT JOIN old ON old.channel = new.channel
        -- the last: mostly, it gets longer
        LEFT JOIN LATERAL (SELECT (old.stretches[cardinality(old.stretches)]).*) x ON TRUE),
    longer AS (
        UPDATE backlog b SET turn = nextval('turn'), tag = x.tag, is_open = b.is_open
            OR b.stretches = '{}', n = b.n + x.n,
            stretches = x.stretches
        FROM total x WHERE b.ctid = x.tid)
    INSERT INTO backlog (channel, lane, turn, tag, is_open, n, held, stretches)
    SELECT x.channel, p_lane, nextval('turn'), x.tag, TRUE, x.n, 0, x.stretches FROM total x WHERE x.tid IS NULL;
END $$;
