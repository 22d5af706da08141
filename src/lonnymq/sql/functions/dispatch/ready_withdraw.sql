-- Move entries of a lane from ready back into their lines, so that lane_refill gives them new tags: of each channel in
-- p_marks, those behind the mark (rank, at, id). Their slots are removed. Entries that are locked are skipped. So are
-- those that a rolled-back dequeue had locked, unless all entries of their channels move (p_are_all): their tags are
-- of the time when they were taken, lower than those of messages that came meanwhile and belong before them.
CREATE OR REPLACE FUNCTION ready_withdraw (l lane_state, p_marks entry[], p_are_all BOOLEAN)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_back ready[];
BEGIN
    WITH back AS (
        DELETE FROM ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.tid FROM unnest(p_marks) k
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM ready r
                WHERE r.channel = k.channel AND r.lane || '' = l.name AND r.tag >= l.floor
                    AND (r.rank, r.at, r.id) > (k.rank, k.at, k.id) AND (r.xmax = '0' OR p_are_all)
                FOR UPDATE SKIP LOCKED) x))
        RETURNING r)
    SELECT array_agg(b.r) INTO v_back FROM back b;
    PERFORM line_add_back(l, v_back);
END $$;
