-- How far the engine has read: one live row, replaced at every fold and found from the high end.
CREATE TABLE tick (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    seen_xid XID8 NOT NULL, seen_id BIGINT NOT NULL,    -- wakes up to here are folded,
    open_xids XID8[] NOT NULL, open_ids BIGINT[] NOT NULL, -- but for these transactions, folded up to these ids
    swept_at BIGINT NOT NULL, swept_id BIGINT NOT NULL, -- leases that end up to here are swept
    lease_max_at BIGINT NOT NULL,                       -- no lease ends after this
    floor_at BIGINT NOT NULL, floor_turn BIGINT NOT NULL, -- no live, due ring row lies below, but for postponed channels
    postponed_to BIGINT NOT NULL,                       -- postponed rows due up to here are done
    postponed_id BIGINT NOT NULL,                       -- and none has a lower id
    review_at BIGINT, review_turn BIGINT,               -- after the clock was set back: ring rows above are to be looked at anew
    resume_channel TEXT COLLATE "C",                    -- after a restore: channels above are still to be found from their messages
    started_at TIMESTAMPTZ NOT NULL, system_id BIGINT NOT NULL -- of the server that wrote it
);
INSERT INTO tick (at, seen_xid, seen_id, open_xids, open_ids, swept_at, swept_id, lease_max_at, floor_at, floor_turn,
    postponed_to, postponed_id, started_at, system_id)
SELECT 0, pg_snapshot_xmax(pg_current_snapshot()), 0, array_agg(x), array_agg(0), 0, 0, 0, 0, 0, 0, 0,
    pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system())
FROM (SELECT pg_current_xact_id() UNION SELECT pg_snapshot_xip(pg_current_snapshot())) o (x);

-- Whoever holds this row folds. A row and not an advisory lock: nobody without rights on it can hold it.
CREATE TABLE fold_lock (only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row));
INSERT INTO fold_lock DEFAULT VALUES;
