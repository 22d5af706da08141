-- What people's calls, limits and the history need to know of a message.
ALTER TABLE message
    ADD COLUMN dequeued_at BIGINT,                              -- the last dequeue
    ADD COLUMN first_dequeued_at BIGINT,                        -- the first, once there were two
    ADD COLUMN is_counted BOOLEAN NOT NULL DEFAULT FALSE,       -- in its channel's size: whoever ends it says so
    ADD COLUMN is_cancelled BOOLEAN NOT NULL DEFAULT FALSE,     -- while leased: its worker is told
    ADD COLUMN dedupe_key TEXT COLLATE "C",
    ADD COLUMN past_errors JSONB;                               -- of earlier lives: [{"at", "attempts", "error"}]
ALTER TABLE dead
    ADD COLUMN dequeued_at BIGINT,
    ADD COLUMN first_dequeued_at BIGINT,
    ADD COLUMN dedupe_key TEXT COLLATE "C",
    ADD COLUMN past_errors JSONB;
CREATE INDEX dead_channel_ix ON dead (channel, id);
