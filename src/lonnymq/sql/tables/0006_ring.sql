-- Whose turn it is: one live row a channel. A turn gives the row a new, higher turn and a due time that is not lower,
-- so the live row of a channel is the first from the high end of the primary key, and the live rows of the
-- ring all lie above a floor that the fold remembers, however many dead ones lie below.
CREATE TABLE ring (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,                   -- breaks ties between equal milliseconds: strict round robin
    due_at BIGINT,                          -- NULL: nothing to do until a wake says otherwise
    is_full BOOLEAN NOT NULL DEFAULT FALSE, -- at its concurrency limit: only a freed slot or its due time matters
    head_at BIGINT, head_id BIGINT,         -- no waiting message of the channel sorts before this
    skip_from_at BIGINT, skip_from_id BIGINT, -- and none between these two: the served stretch
    skip_to_at BIGINT, skip_to_id BIGINT,     -- between urgent newcomers and the old head
    released_at BIGINT,                     -- the last release, for the interval; visits that release nothing leave it
    running BIGINT[],                       -- under a concurrency limit: every leased message is in here, and maybe some that
                                            -- ended. NULL: not counted yet
    struck_to INT NOT NULL DEFAULT 0,       -- how long that list was when those that ended were last struck off
    PRIMARY KEY (channel, turn)
);
CREATE INDEX ring_due_ix ON ring (due_at, turn) WHERE due_at IS NOT NULL;
CREATE SEQUENCE turn;
