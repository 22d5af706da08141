-- Policies of channels, and what they need: slots for concurrency, sizes, dedupe keys.

-- The policy of a channel; rarely written. A limit of NULL is inherited from the queue, and 0 means no limit. A channel
-- without a row inherits everything. See channel_limits.
CREATE TABLE channel (
    name TEXT COLLATE "C" PRIMARY KEY,
    max_concurrency INT,
    release_interval_us BIGINT,             -- the rate: one release per interval,
    burst INT,                              -- and up to so many at once after a pause
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    max_size INT,
    weight NUMERIC NOT NULL DEFAULT 1
);

-- The policy that applies to a channel. A limit of NULL means no limit. inherited: which values come from the queue.
CREATE TYPE channel_policy AS (
    channel TEXT, max_concurrency INT, release_interval_us BIGINT, burst INT, paused BOOLEAN, max_size INT,
    weight NUMERIC, inherited TEXT[]);

-- What channel_stats and channel_list return.
CREATE TYPE channel_statistics AS (
    channel TEXT, waiting BIGINT, due BIGINT, scheduled BIGINT, leased BIGINT, dead BIGINT, oldest_due_ms BIGINT,
    served BIGINT, last_served_at BIGINT, blocked_by TEXT,
    max_concurrency INT, release_interval_us BIGINT, burst INT, paused BOOLEAN, max_size INT, weight NUMERIC,
    inherited TEXT[]);

-- Policies that have changed, and that the dispatcher has not seen yet. Until it has, no dequeue takes messages of this
-- channel; '' means of any channel, because a setting of the queue changed.
CREATE TABLE policy_change (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT COLLATE "C" NOT NULL,
    is_default BOOLEAN NOT NULL DEFAULT FALSE, -- the limits that channels inherit changed
    PRIMARY KEY (xid, id)                   -- see tick.policy_xid
);

-- The messages that use the slots of a channel with a limit: those in ready or leased. '' is the limit of the whole
-- queue. A slot is busy while a message has this id and generation, so there is no counter that could leak. One live
-- row per channel. A channel whose limits are inherited has a row only while it needs one: without a row, nothing of it
-- is in ready or leased.
CREATE TABLE slots (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    busy stub[] NOT NULL,                   -- all busy slots, and possibly some that became free
    pruned_to INT NOT NULL,                 -- how many were left when free slots were last removed from the list
    pruned_at BIGINT NOT NULL,              -- when that was
    changed_at BIGINT NOT NULL,             -- when a slot was last taken, or found free
    has_older BOOLEAN NOT NULL,             -- some are older than the limit: there is no notice when they become free
    -- when to look again if it is full and no notice says that a slot became free
    alarm_at BIGINT,
    -- With a rate, a bucket holds up to burst tokens and gets one per interval; each release takes one.
    interval_us BIGINT, burst INT,          -- the rate; NULL: none
    released_at BIGINT,                     -- the last release
    full_at_us BIGINT,                      -- when the bucket is full again, in microseconds; NULL: it is full
    out stub[] NOT NULL DEFAULT '{}',       -- entries in ready, which will take a token: see slots_check_out
    PRIMARY KEY (channel, turn)
);

-- Which message has a dedupe key. unique_for_ms says how long it holds the key:
--   NULL               while it waits: for its first attempt, or for another one. Nothing is written here when it is
--                      dequeued or finished. A create that finds the key looks whether the message waits (dedupe_holds)
--   0 or more          until it is finished, and for this long after; the call that finishes it sets until_at
-- The primary key prevents two transactions from creating two messages with one key: a new key is inserted with turn 0.
-- When another message takes the key over for the first time, that row stays, empty, so that nobody else can insert it,
-- and a second row has the holder. That row gets a higher turn each time, and is found from the high end of the index.
-- The holder is always the one with the highest turn. Other rows may be left of messages that were set aside when their
-- key was taken over, because creates still counted on them.
CREATE TABLE dedupe (
    channel TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL DEFAULT 0,
    message_id BIGINT,                      -- NULL: see the row with the higher turn
    unique_for_ms BIGINT,
    until_at BIGINT,                        -- NULL: the message is not finished, or unique_for_ms is NULL
    check_at BIGINT,                        -- when maintain looks whether the row can be deleted; NULL: never
    PRIMARY KEY (channel, key, turn)
);
CREATE INDEX dedupe_check_ix ON dedupe (check_at) WHERE check_at IS NOT NULL;

-- How many messages a channel with a max_size has. Producers to such a channel lock its row, add to the size, and give
-- the row a higher turn. Calls that finish messages never lock it: they append a departure, which a producer subtracts
-- when it needs the room.
CREATE TABLE capacity (
    channel TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    size BIGINT NOT NULL,                   -- messages that were counted, minus the departures subtracted so far
    uncounted BIGINT NOT NULL,              -- messages older than the limit, at most; they append no departure
    recounted_at BIGINT NOT NULL,
    sizes_turn BIGINT NOT NULL,             -- the value of queue.sizes_turn when uncounted was last counted
    -- transactions that were open when the limit was set, and may add uncounted messages; NULL: not known yet
    open_xids XID8[],
    -- the departures of all transactions that this snapshot sees are subtracted; NULL: possibly none
    read_to PG_SNAPSHOT,
    started_at TIMESTAMPTZ,                 -- start of the server that read_to belongs to
    PRIMARY KEY (channel, turn)
);
CREATE TABLE departure (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    n INT NOT NULL,                         -- how many messages
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (channel, xid, id)
);
