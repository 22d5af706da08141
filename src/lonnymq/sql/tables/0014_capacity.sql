-- How many messages a channel with a max_size holds. Producers to such a channel lock its row, count up, and replace it
-- by one with a higher turn: the live row is the first from the high end. Finishers never lock it: they append a
-- departure, which a producer takes off when it needs the room.
CREATE TABLE capacity (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    size BIGINT NOT NULL,                   -- messages that were counted in, less the departures taken off
    uncounted BIGINT NOT NULL,              -- messages from before the limit, at most; they leave without a word
    recounted_at BIGINT NOT NULL,
    open_xids XID8[],                       -- who was at work when the limit was new, and may add to them; NULL: not asked yet
    PRIMARY KEY (channel, turn)
);
CREATE TABLE departure (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (channel, id)
);
