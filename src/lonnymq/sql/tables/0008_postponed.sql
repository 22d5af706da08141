-- What a fold could not do because somebody held the row. key: 'c' and a channel whose wake is to be placed, or 'm' and the id of
-- a message whose lease is to be swept. Tried again with growing pauses, each time as a new row: the live ones lie
-- above an id that the tick remembers, and are found from the high end. Only the holder of the fold lock writes here.
CREATE TABLE postponed (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at BIGINT NOT NULL,
    pause_ms INT NOT NULL,
    lo_at BIGINT, lo_id BIGINT,             -- the lowest position that was woken; NULL: look at the channel
    key TEXT COLLATE "C" NOT NULL
);
CREATE INDEX postponed_key_ix ON postponed (key, id);
CREATE INDEX postponed_due_ix ON postponed (due_at, id);
