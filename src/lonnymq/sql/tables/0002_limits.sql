-- What a channel may do, and what messages may come in.

-- Policy alone, and cold: a channel without a row has no limits.
CREATE TABLE channel (
    name TEXT COLLATE "C" PRIMARY KEY,
    max_concurrency INT,                    -- NULL: no limit
    release_interval_ms BIGINT NOT NULL DEFAULT 0,
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    max_size INT,                           -- NULL: no limit
    weight NUMERIC NOT NULL DEFAULT 1
);

-- The policy of a channel, with what applies to a channel that has none.
CREATE TYPE channel_policy AS (
    channel TEXT, max_concurrency INT, release_interval_ms BIGINT, paused BOOLEAN, max_size INT, weight NUMERIC);

-- What channel_stats and channel_list return.
CREATE TYPE channel_statistics AS (
    channel TEXT, waiting BIGINT, due BIGINT, scheduled BIGINT, leased BIGINT, dead BIGINT, oldest_due_ms BIGINT,
    served BIGINT, last_served_at BIGINT, blocked_by TEXT,
    max_concurrency INT, release_interval_ms BIGINT, paused BOOLEAN, max_size INT, weight NUMERIC);

-- A policy has changed, and the dispatcher has not seen it yet: nothing of this channel is taken until it has. '':
-- nothing at all.
CREATE TABLE policy_change (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (xid, id)                   -- see tick.policy_xid
);

-- What runs, or is next to be served, of a channel with a limit; '' is the whole queue. A slot is busy while a
-- message has this id and generation. So nothing is counted up and down, and nothing can leak. One live row a
-- channel.
CREATE TABLE slots (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    busy stub[] NOT NULL,                   -- all that are busy, and maybe some that came free
    pruned_to INT NOT NULL,                 -- how many were left when free slots were last removed
    pruned_at BIGINT NOT NULL,              -- when free slots were last removed
    changed_at BIGINT NOT NULL,             -- when a slot was last taken, or found to have come free
    has_older BOOLEAN NOT NULL,             -- some are older than the limit: finishing these appends no notice
    -- when it is looked at again, if it is full and nobody says that a slot came free
    alarm_at BIGINT,
    released_at BIGINT,                     -- under an interval: the last release,
    out stub,                               -- and the one message that is next to be served; NULL: none
    PRIMARY KEY (channel, turn)
);

-- Who holds a dedupe key: the message while it lives, and its memory for a time after. The primary key is what keeps
-- two transactions from making two messages of one key: a new key begins with turn 0. When it is first taken over,
-- that row stays as an empty one, so that nobody else can begin, and a second row has the holder. It gets a higher
-- turn each time, and is found from the high end.
CREATE TABLE dedupe (
    channel TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL DEFAULT 0,
    message_id BIGINT,                      -- NULL: the row with the higher turn has it
    until_at BIGINT,                        -- NULL: the message lives
    PRIMARY KEY (channel, key, turn)
);
CREATE INDEX dedupe_until_ix ON dedupe (until_at) WHERE until_at IS NOT NULL;

-- How many messages a channel with a max_size holds. Producers to such a channel lock its row, count up, and replace it
-- by one with a higher turn. Finishers never lock it: they append a departure, which a producer takes off when it
-- needs the room.
CREATE TABLE capacity (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    size BIGINT NOT NULL,                   -- messages that were counted in, less the departures taken off
    uncounted BIGINT NOT NULL,              -- messages from before the limit, at most; they leave without a word
    recounted_at BIGINT NOT NULL,
    -- who was at work when the limit was new, and may add to them; NULL: not asked yet
    open_xids XID8[],
    -- the departures of all transactions that it sees are taken off; NULL: maybe none
    read_to PG_SNAPSHOT,
    started_at TIMESTAMPTZ,                 -- of the server that read_to is of
    PRIMARY KEY (channel, turn)
);
CREATE TABLE departure (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    n INT NOT NULL,                         -- how many messages
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (channel, xid, id)
);
