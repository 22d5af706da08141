-- What producers and finishers append instead of locking a channel. Three kinds:
--   channel and positions   messages now wait between (lo_at, lo_id) and (hi_at, hi_id)
--   channel alone           a slot came free, or the policy changed: look at the channel again
--   no channel              leases now end between lo_at and hi_at
-- The writer's xid8 lets a fold read each wake once, in whatever order the writers commit.
CREATE TABLE wake (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    lo_at BIGINT, lo_id BIGINT,
    hi_at BIGINT, hi_id BIGINT,
    channel TEXT COLLATE "C",
    PRIMARY KEY (xid, id)
);
