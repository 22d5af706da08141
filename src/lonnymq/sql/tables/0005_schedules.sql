-- Up to which tick each schedule is decided. Of several workers, the one that moves ticked_at on from the value that it
-- has read fires the ticks in between.
CREATE TABLE schedule (
    name TEXT COLLATE "C" PRIMARY KEY,
    ticked_at BIGINT NOT NULL,              -- the last tick that was fired or skipped; at first, opened_at
    fired_at BIGINT,                        -- the last tick that was fired
    opened_at BIGINT NOT NULL
);
