-- What was served and what waits, kept where a row is written in any case. A wake says by how much the number of waiting messages
-- changes; the tick sums up, exactly, as far as it has read.
ALTER TABLE wake ADD COLUMN n INT NOT NULL DEFAULT 0;
ALTER TABLE tick
    ADD COLUMN waiting BIGINT DEFAULT 0,            -- NULL: not known since a restore
    ADD COLUMN served BIGINT NOT NULL DEFAULT 0;
UPDATE tick SET waiting = NULL WHERE EXISTS (SELECT FROM message);
-- What is above seen_xid is read as newer: listed as open too, it would be counted twice.
UPDATE tick t SET (open_xids, open_ids) = (
    SELECT COALESCE(array_agg(o.xid), '{}'), COALESCE(array_agg(o.id), '{}')
    FROM unnest(t.open_xids, t.open_ids) o (xid, id) WHERE o.xid < t.seen_xid);
ALTER TABLE ring ADD COLUMN served BIGINT NOT NULL DEFAULT 0;
-- Of channels whose ring row was forgotten.
CREATE TABLE tally (
    channel TEXT COLLATE "C" PRIMARY KEY,
    served BIGINT NOT NULL,
    released_at BIGINT
);
ALTER TABLE upkeep
    ADD COLUMN dedupe_from BIGINT NOT NULL DEFAULT 0,  -- keys that are free since before are gone
    ADD COLUMN dedupe_day BIGINT NOT NULL DEFAULT 0;   -- when all of them were last looked for
