-- Move entries of a lane from ready back into their lines, so that lane_refill gives them new tags: of each channel in
-- p_marks, those behind the mark (rank, at, id). Their slots are removed. Entries that a dequeue has locked are skipped,
-- also after its rollback: their tags are of the time when it took them, and only ready_reclaim knows their place.
CREATE OR REPLACE FUNCTION ready_withdraw (l lane_state, p_marks entry[])
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
                    AND r.xmax = '0' AND (r.rank, r.at, r.id) > (k.rank, k.at, k.id)
                FOR UPDATE SKIP LOCKED) x))
        RETURNING r)
    SELECT array_agg(b.r) INTO v_back FROM back b;
    PERFORM line_add_back(l, v_back);
END $$;
