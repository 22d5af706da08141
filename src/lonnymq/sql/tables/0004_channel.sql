-- Policy alone, and cold: a channel without a row has no limits.
CREATE TABLE channel (
    name TEXT COLLATE "C" PRIMARY KEY,
    max_concurrency INT,                    -- NULL: no limit
    release_interval_ms BIGINT NOT NULL DEFAULT 0,
    paused BOOLEAN NOT NULL DEFAULT FALSE
);
