-- Add messages to the lines of a lane. A line that was empty starts with the lowest tag of its messages. Any other line
-- keeps its tag, unless the messages come back from ready (p_is_back) with a lower one. All these lines are open
-- afterwards; lane_refill closes those whose channel may not release.
CREATE OR REPLACE FUNCTION line_add (p_lane TEXT, p_new ready[], p_is_back BOOLEAN)
RETURNS VOID LANGUAGE plpgsql SET enable_hashjoin TO on AS $$ -- for arrays; tables are read by LATERAL
DECLARE
    c_end CONSTANT BIGINT := 9223372036854775807;
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
        SELECT new.channel, b.tid, b.tag, NULLIF(b.ranges, '{}') AS ranges FROM new
        CROSS JOIN LATERAL backlog_live(new.channel, p_lane) b),
    total AS MATERIALIZED (
        SELECT new.channel, old.tid, new.n,
            CASE WHEN old.ranges IS NULL THEN new.tag WHEN p_is_back THEN LEAST(new.tag, old.tag)
                ELSE old.tag END AS tag,
            CASE WHEN new.is_one AND old.ranges IS NULL
                THEN ARRAY[ROW(new.lo[1], new.lo[2], new.lo[3], new.hi[1],
                    CASE WHEN new.lo[2] > 0 THEN c_end ELSE new.hi[2] END, -- no end: later messages are in it, too
                    CASE WHEN new.lo[2] > 0 THEN c_end ELSE new.hi[3] END)::line_range]
            WHEN new.is_one AND (x.lo_rank, x.lo_at, x.lo_id) <= (new.lo[1], new.lo[2], new.lo[3])
                AND (x.hi_rank, x.hi_at, x.hi_id) >= (new.hi[1], new.hi[2], new.hi[3]) THEN old.ranges
            ELSE ranges_add(COALESCE(old.ranges, '{}'), ARRAY(
                SELECT e FROM unnest(p_new) e WHERE e.channel = new.channel)) END AS ranges
        FROM new LEFT JOIN old ON old.channel = new.channel
        LEFT JOIN LATERAL (SELECT (old.ranges[cardinality(old.ranges)]).*) x ON TRUE),
    longer AS (
        UPDATE backlog b
        -- If only the count changes, the turn stays and no index is written. Every 16 messages it changes anyway, so
        -- that few dead rows have the same turn.
        SET turn = CASE WHEN b.ranges = x.ranges AND b.tag = x.tag AND b.n / 16 = (b.n + x.n) / 16 THEN b.turn
                ELSE nextval('turn') END,
            tag = x.tag, is_open = b.is_open OR b.ranges = '{}', n = b.n + x.n, ranges = x.ranges
        FROM total x WHERE b.ctid = x.tid)
    INSERT INTO backlog (channel, lane, turn, tag, is_open, n, ranges)
    SELECT x.channel, p_lane, nextval('turn'), x.tag, TRUE, x.n, x.ranges FROM total x WHERE x.tid IS NULL;
END $$;
