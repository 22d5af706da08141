-- Up to which tick each schedule is decided. Of several workers, the one that moves ticked_at on from the value that it
-- has read fires the ticks in between.
CREATE TABLE schedule (
    name TEXT COLLATE "C" PRIMARY KEY,
    ticked_at BIGINT NOT NULL,              -- the last tick that was fired or skipped; at first, opened_at
    fired_at BIGINT,                        -- the last tick that created a message
    opened_at BIGINT NOT NULL,
    paused_at BIGINT,                       -- since when it is paused; NULL: it is not
    refused BIGINT NOT NULL DEFAULT 0,      -- how many messages a full channel refused
    refused_at BIGINT,                      -- when that last happened
    -- The definition that a worker gave last, for people and for schedule_run. Workers go by their own. NULL: none.
    expression TEXT,
    time_zone TEXT,
    catch_up TEXT,
    channel TEXT,
    content BYTEA,
    options JSONB
);
