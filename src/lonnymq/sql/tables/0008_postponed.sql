-- What a fold could not do because somebody held the row: a channel's wake, or the sweep of one lease.
-- Tried again with growing pauses. Only the holder of the fold lock writes here.
CREATE TABLE postponed (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at BIGINT NOT NULL,
    pause_ms INT NOT NULL DEFAULT 2,
    lo_at BIGINT, lo_id BIGINT,
    hi_at BIGINT, hi_id BIGINT,
    message_id BIGINT,
    channel TEXT COLLATE "C",
    CHECK (num_nonnulls(message_id, channel) = 1)
);
CREATE UNIQUE INDEX postponed_channel_ix ON postponed (channel) WHERE channel IS NOT NULL;
CREATE UNIQUE INDEX postponed_message_ix ON postponed (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX postponed_due_ix ON postponed (due_at);
