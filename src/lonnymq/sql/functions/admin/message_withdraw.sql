-- Take messages out of the places where they wait, in order to finish them or to give them another time. The caller has
-- locked them, so no dequeue can serve them from now on. READ COMMITTED only, unless the caller treats leased messages
-- as waiting ones.
-- Waits for an open dequeue that took one before. If that commits, the entry is gone and the message is searched again:
-- it is leased then, or the dispatcher has moved it. A message that is neither in scheduled nor in ready nor in a lease
-- is in a backlog, or its notice is unread or being read. Then whatever the dispatcher makes of it is void, and a
-- notice has it removed from the backlog.
-- Returns all of the messages, with their leases if they have one, and with the outcome and the time given.
CREATE OR REPLACE FUNCTION message_withdraw (p_ids BIGINT[], p_outcome TEXT, p_at BIGINT DEFAULT NULL)
RETURNS ending[] LANGUAGE plpgsql AS $$
DECLARE
    v_entries entry[] := ARRAY(
        SELECT ROW(m.id, m.generation, -m.priority, m.dequeue_at, m.cost, m.lane, m.channel)::entry
        FROM message m WHERE m.id = ANY (p_ids));
    v_rest BIGINT[] := p_ids;               -- messages without an entry in scheduled or ready
    v_leased ending[] := '{}';
    d RECORD;
BEGIN
    FOR i IN 1 .. 100 LOOP
        d := entries_delete(v_entries);
        v_rest := ARRAY(SELECT r FROM unnest(v_rest) r WHERE COALESCE(r NOT IN (SELECT u FROM unnest(d.ids) u), TRUE));
        EXIT WHEN NOT d.is_again;
    END LOOP;
    IF v_rest <> '{}' THEN
        v_leased := ARRAY(
            SELECT ROW(NULL, h.id, h.generation, h.token, h.last_id, h.dequeued_at, h.consumer, NULL, m.channel,
                p_outcome, p_at, NULL, NULL, NULL)::ending
            FROM message_leases(v_rest) h
            CROSS JOIN LATERAL (SELECT m.channel FROM message m WHERE m.id = h.id OFFSET 0) m);
        INSERT INTO notice (gone)           -- five per notice: a dispatch reads a bounded number of notices
        SELECT array_agg(x.e)
        FROM (
            SELECT e, (ROW_NUMBER() OVER () - 1) / 5 AS part FROM unnest(v_entries) e
            WHERE COALESCE(e.id IN (SELECT r FROM unnest(v_rest) r), FALSE)
                AND COALESCE(e.id NOT IN (SELECT l.id FROM unnest(v_leased) l), TRUE)) x
        GROUP BY x.part;
    END IF;
    RETURN v_leased || ARRAY(
        SELECT ROW(NULL, e.id, e.generation, NULL, NULL, NULL, NULL, NULL, e.channel, p_outcome, p_at, NULL,
            NULL, NULL)::ending
        FROM unnest(v_entries) e WHERE COALESCE(e.id NOT IN (SELECT l.id FROM unnest(v_leased) l), TRUE));
END $$;
