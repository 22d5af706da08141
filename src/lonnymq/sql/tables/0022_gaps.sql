-- A channel's line is read in stretches, between which nothing waits. What was known of one such gap is forgotten: its dead rows
-- are then read once.
ALTER TABLE ring
    DROP COLUMN skip_from_at, DROP COLUMN skip_from_id, DROP COLUMN skip_to_at, DROP COLUMN skip_to_id,
    ADD COLUMN gaps BIGINT[],               -- a row each, in order: (from_at, from_id, to_at, to_id); no waiting message lies between. NULL: none
    ADD COLUMN tail_at BIGINT DEFAULT 9223372036854775807; -- every waiting message is for before this or the tick's; NULL: the tick's
ALTER TABLE ring ALTER COLUMN tail_at DROP DEFAULT;
ALTER TABLE tick
    ADD COLUMN last_id BIGINT,              -- the highest id of a message that was folded
    ADD COLUMN tail_at BIGINT NOT NULL DEFAULT 0, -- every waiting message is for before this, but for channels that say otherwise
    ADD COLUMN tail_xid XID8;               -- it stays there until the transactions below this have ended; NULL: it goes with the clock
-- Calls whose parameters changed: CREATE OR REPLACE would leave the old one beside the new.
DROP FUNCTION IF EXISTS ring_place(wake[], BIGINT, BIGINT, BIGINT);
DROP FUNCTION IF EXISTS ring_turn(TID[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], BIGINT[], INT[], BIGINT[],
    BOOLEAN[], INT[], INT[], TEXT[], INT[], BIGINT[], INT[], TEXT[], BIGINT, BIGINT);
