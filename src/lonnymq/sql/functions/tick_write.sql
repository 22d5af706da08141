-- Put a tick in place of the one it came from.
CREATE OR REPLACE FUNCTION tick_write (p_tick tick)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tick WHERE id = p_tick.id;
    INSERT INTO tick (at, seen_xid, seen_id, open_xids, open_ids, swept_at, swept_id, lease_max_at, floor_at, floor_turn,
        postponed_to, postponed_id, review_at, review_turn, resume_channel, started_at, system_id, waiting, served,
        last_id, tail_at, tail_xid)
    VALUES (p_tick.at, p_tick.seen_xid, p_tick.seen_id, p_tick.open_xids, p_tick.open_ids, p_tick.swept_at, p_tick.swept_id,
        p_tick.lease_max_at, p_tick.floor_at, p_tick.floor_turn, p_tick.postponed_to, p_tick.postponed_id, p_tick.review_at, p_tick.review_turn,
        p_tick.resume_channel, p_tick.started_at, p_tick.system_id, p_tick.waiting, p_tick.served,
        p_tick.last_id, p_tick.tail_at, p_tick.tail_xid);
END $$;
