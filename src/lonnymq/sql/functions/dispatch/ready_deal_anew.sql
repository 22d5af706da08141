-- Part of a refill: messages that somebody held were put into ready now, and others of their channel that belong behind
-- them have lower tags, because they were put there before. All of these go back into their lines, and are dealt anew.
CREATE OR REPLACE FUNCTION ready_deal_anew (l lane_state, p_freed ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ready_take_back(l, ARRAY(
        SELECT ROW(f.id - 1, 0, f.rank, f.at, 0, l.name, f.channel)::entry FROM unnest(p_freed) f
        WHERE EXISTS (
            SELECT FROM ready r
            WHERE r.channel = f.channel AND r.lane || '' = l.name AND r.tag >= l.floor AND r.tag < f.tag
                AND (r.rank, r.at, r.id) > (f.rank, f.at, f.id))));
END $$;
