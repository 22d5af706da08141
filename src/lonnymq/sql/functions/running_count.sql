-- Part of a dequeue, under the ring rows' locks: what the visited channels with a concurrency limit have room for.
-- Each ring row lists the messages leased from it. Those that ended are struck off by looking them up, when the list leaves no room for
-- p_limit more or has doubled since: one look-up a message, all in all. Nothing is counted up and down, so nothing can
-- drift. A message counts until it is completed, deferred or swept, however late. A channel without a list (its limit is
-- new) is counted once from the leases.
-- A message is looked up by its id: behind a COALESCE, so that the planner does not take the index of leases, dead entries and all, for it.
-- room and until are NULL where there was no need to look. until: when the first of them runs out; -1: some were leased before the
-- limit was set, and will end without a word.
CREATE OR REPLACE FUNCTION running_count (
    p_channel TEXT[], p_max INT[], p_running TEXT[], p_struck_to INT[], p_cap INT[], p_limit INT)
RETURNS TABLE (ord BIGINT, cap INT, room INT, running TEXT, struck_to INT, until BIGINT) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT v.ord, GREATEST(0, LEAST(v.cap, r.room)), r.room, COALESCE(r.ids, v.running), COALESCE(v.max - r.room, v.struck_to), r.until
    FROM (
        SELECT w.ord, w.channel, w.cap, w.max, w.running, w.struck_to,
            w.max IS NOT NULL AND (w.running IS NULL OR w.n + p_limit > w.max OR w.n > 2 * w.struck_to + 64) AS is_tight
        FROM (
            SELECT u.ord, u.channel, u.cap, u.max, CASE WHEN u.max IS NOT NULL THEN u.running END AS running, u.struck_to,
                cardinality(u.running::BIGINT[]) AS n
            FROM unnest(p_channel, p_max, p_running, p_struck_to, p_cap) WITH ORDINALITY u (channel, max, running, struck_to, cap, ord)) w) v
    LEFT JOIN LATERAL (
        SELECT v.max - COUNT(*)::INT AS room, COALESCE(array_agg(x.id), '{}')::TEXT AS ids,
            CASE WHEN BOOL_AND(x.slot) THEN MIN(x.lease_end_at) WHEN COUNT(*) > 0 THEN -1 END AS until
        FROM (
            SELECT m.id, m.slot, m.lease_end_at
            FROM (SELECT DISTINCT i FROM unnest(CASE WHEN v.is_tight THEN v.running::BIGINT[] END) i) i
            CROSS JOIN LATERAL (SELECT * FROM message m WHERE m.id = i.i AND COALESCE(m.leased, FALSE) OFFSET 0) m
            UNION ALL
            SELECT m.id, m.slot, m.lease_end_at FROM message m
            WHERE v.is_tight AND v.running IS NULL AND m.leased AND m.channel = v.channel) x
    ) r ON v.is_tight;
END $$;
