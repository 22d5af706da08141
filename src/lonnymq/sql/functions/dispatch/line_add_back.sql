-- Add entries that were in ready to their lines again, and remove their slots. lane_refill gives them new tags. Entries
-- whose messages were cancelled or rescheduled are dropped.
CREATE OR REPLACE FUNCTION line_add_back (l lane_state, p_back ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_back IS NOT NULL THEN
        PERFORM slots_remove(p_back);
        p_back := ARRAY(
            SELECT b FROM unnest(p_back) b
            CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = b.id AND m.generation = b.generation OFFSET 0) m);
        PERFORM line_add(l.name, p_back, TRUE);
        PERFORM backlog_reopen(l, ARRAY(SELECT DISTINCT b.channel FROM unnest(p_back) b), FALSE, NULL);
    END IF;
END $$;
