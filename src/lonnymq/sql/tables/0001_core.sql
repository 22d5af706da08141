-- The path of a message. It is in one place at a time, and each place is a table:
--   just created, or come back   message, and a notice that the dispatcher has not read
--   for later                    scheduled
--   due, and waiting             line
--   next to be served            ready
--   taken                        lease
--   at its end                   dead, finished (history)
-- Everybody appends notices; the dispatcher alone moves messages on, up to ready. Consumers take from there.

-- rows that change often are replaced by one with a higher turn, and found from the high end
CREATE SEQUENCE turn;

-- The queue's settings: one row.
CREATE TABLE queue (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    content_max_bytes INT NOT NULL DEFAULT 1048576,
    lease_ms BIGINT NOT NULL DEFAULT 30000,                     -- of a dequeue that names none
    lease_max_ms BIGINT NOT NULL DEFAULT 86400000,
    max_attempts INT NOT NULL DEFAULT 5,
    max_concurrency INT,                                        -- over all channels; NULL: no limit
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    dedupe_keep_ms BIGINT NOT NULL DEFAULT 600000,
    history BOOLEAN NOT NULL DEFAULT FALSE,
    history_content BOOLEAN NOT NULL DEFAULT FALSE,
    history_keep_ms BIGINT NOT NULL DEFAULT 2592000000,         -- 0: for ever
    notify BOOLEAN NOT NULL DEFAULT TRUE,
    -- What nobody uses costs nothing:
    has_sizes BOOLEAN NOT NULL DEFAULT FALSE,                   -- some channel has, or had, a max_size
    has_bound BOOLEAN NOT NULL DEFAULT FALSE                    -- some credential is bound to channels
);
INSERT INTO queue DEFAULT VALUES;

-- A message as it was when it came to the place it is in: each time it comes back it has a higher generation.
CREATE TYPE stub AS (id BIGINT, generation INT);

-- What the dispatcher knows of a message while it decides where it goes. They are served in the order (rank, at, id)
-- within their channel.
CREATE TYPE entry AS (
    id BIGINT, generation INT,
    rank SMALLINT,                          -- minus its priority
    at BIGINT,                              -- dequeue_at
    cost INT, lane TEXT, channel TEXT);

-- The work, and the only table that cannot be remade from another one. Nothing is looked up here but by id.
CREATE TABLE message (
    -- A session caches no ids: message_create_many relies on new ids being above the last one.
    id BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction whose notice tells of it
    dequeue_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    -- the last dequeue, once its lease has ended: while it runs, the lease says it
    dequeued_at BIGINT,
    first_dequeued_at BIGINT,               -- the first, once there were two
    generation INT NOT NULL DEFAULT 0,      -- how often it came back
    -- attempts that failed or whose lease ran out. What shows a leased message adds the running one
    attempts INT NOT NULL DEFAULT 0,
    max_attempts INT,                       -- NULL: the queue's
    cost INT NOT NULL DEFAULT 1,            -- what it counts against its channel's share
    priority SMALLINT NOT NULL DEFAULT 0,
    is_counted BOOLEAN NOT NULL DEFAULT FALSE,      -- in its channel's size: whoever ends it says so
    is_cancelled BOOLEAN NOT NULL DEFAULT FALSE,    -- while leased: its worker is told
    lane TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    channel TEXT COLLATE "C" NOT NULL,
    dedupe_key TEXT COLLATE "C",
    consumer TEXT,                          -- of the last dequeue, once its lease has ended
    error TEXT,
    headers JSONB,
    past_errors JSONB,                      -- of earlier lives: [{"at", "attempts", "error"}]
    state BYTEA,
    content BYTEA NOT NULL
);

-- How many messages dequeues took of a channel, and when the last one did.
CREATE TYPE share AS (channel TEXT, n INT, at BIGINT);

-- What everybody appends for the dispatcher, instead of locking something. The writer's xid8 lets it read each notice
-- once, in whatever order the writers commit. A row tells one of these:
--   lo_id, hi_id       this transaction created messages, with ids from lo_id to hi_id: those of generation 0
--                      that have its xid
--   back               these messages came back; with at: they are to be placed then, as somebody locks them now
--   lease_end_at       a lease now ends then; with taken, at and wanted: a dequeue, what it took, when, and how much
--                      it asked for
--   asked              a dequeue found nothing in these lanes: somebody serves them
--   gone               these messages no longer wait where their entries are: cancelled, or rescheduled
--   channel            look at this channel again: its policy changed, or a slot came free. '': at the whole queue
CREATE TABLE notice (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    lo_id BIGINT, hi_id BIGINT,
    lease_end_at BIGINT,
    at BIGINT,
    n INT NOT NULL DEFAULT 0,               -- by how much the number of waiting messages changes
    wanted INT,
    channel TEXT COLLATE "C",
    back stub[],
    taken share[],
    gone entry[],
    asked TEXT[],
    PRIMARY KEY (xid, id)
);

-- For later, for all channels in the order of time.
CREATE TABLE scheduled (
    at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    rank SMALLINT NOT NULL,
    cost INT NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (at, id, generation)
);
CREATE INDEX scheduled_channel_ix ON scheduled (channel, at, id);

-- What the dispatcher has to look at again at a time: a channel; leases that end at lease_end_at and that somebody
-- held; a row of scheduled that somebody held; or a message that is in no other place, because somebody locked it.
CREATE TABLE alarm (
    at BIGINT NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT COLLATE "C",
    lease_end_at BIGINT,
    scheduled_at BIGINT, scheduled_id BIGINT, scheduled_generation INT,
    back stub,
    PRIMARY KEY (at, id)
);

-- Due, but not next: the lines of the channels. Only the dispatcher writes here.
CREATE TABLE line (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    rank SMALLINT NOT NULL,
    at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    cost INT NOT NULL,
    PRIMARY KEY (channel, lane, rank, at, id, generation) -- an older generation may still be there, and is void
);

-- A part of a line that has messages; between the parts of a line nothing is left. Ends count in.
CREATE TYPE stretch AS (lo_rank SMALLINT, lo_at BIGINT, lo_id BIGINT, hi_rank SMALLINT, hi_at BIGINT, hi_id BIGINT);

-- One live row for each line that is not empty. That of a line at its end stays for a while, without stretches: so
-- whoever looks for a line finds a row, and does not walk over those that were replaced.
CREATE TABLE backlog (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    tag BIGINT NOT NULL,                    -- of its next message
    is_open BOOLEAN NOT NULL,               -- it may release one; else a notice or a time will say when to look again
    n BIGINT NOT NULL,                      -- messages in the line
    stretches stretch[] NOT NULL,           -- in order
    PRIMARY KEY (channel, lane, turn)
) WITH (fillfactor = 70);
-- How a refill leaves a line, and when to look again if it is time that keeps it.
CREATE TYPE line_state AS (
    tid TID, channel TEXT, tag BIGINT, is_open BOOLEAN, n BIGINT, stretches stretch[], again_at BIGINT);
CREATE INDEX backlog_tag_ix ON backlog (lane, tag, turn) WHERE is_open;
CREATE INDEX backlog_ended_ix ON backlog (turn) WHERE stretches = '{}';

-- Next to be served: lowest tag first. Tags are virtual time: each message of a channel has a tag that is higher by
-- cost / weight than the one before it, so that channels advance together.
CREATE TABLE ready (
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    rank SMALLINT NOT NULL,
    at BIGINT NOT NULL,
    cost INT NOT NULL,
    is_limited BOOLEAN NOT NULL,            -- a limit may keep others waiting for it: who finishes it gives notice
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, tag, id, generation)
);
CREATE INDEX ready_channel_ix ON ready (channel, tag, id); -- lanes have tags of their own, and are compared then

-- Entries of ready that an open dequeue has held for more than a second, and that lie below its lane's floor. If that
-- dequeue rolls back, they are put back.
CREATE TABLE held (
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    PRIMARY KEY (lane, tag, id, generation)
);

-- The tag that a channel's next message gets if it comes soon: of channels that were placed without a line while
-- others had one.
CREATE TABLE recent (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    PRIMARY KEY (channel, lane, tag)
);
CREATE INDEX recent_tag_ix ON recent ((tag + 0), lane); -- an expression: whoever looks for a channel takes the other

-- What a dequeue took: one row for up to 100 messages, in the order of their ids. It goes when all of them are
-- finished; those that are not there any more, or have another generation, do not count.
CREATE TABLE lease (
    token UUID NOT NULL,
    last_id BIGINT NOT NULL,                -- the highest id in this row
    end_at BIGINT NOT NULL,
    dequeued_at BIGINT NOT NULL,
    is_limited BOOLEAN NOT NULL,            -- some of them were: see ready
    consumer TEXT,
    stubs stub[] NOT NULL,
    PRIMARY KEY (token, last_id)
);
CREATE INDEX lease_end_ix ON lease (end_at);

-- What becomes of a message: how it ends, or that it comes back. For the calls that finish, cancel or expire it.
CREATE TYPE ending AS (
    ord BIGINT,                             -- the element of the call that named it
    id BIGINT, generation INT,
    token UUID, last_id BIGINT,             -- its lease; NULL: it was waiting
    dequeued_at BIGINT, consumer TEXT, is_limited BOOLEAN,
    channel TEXT,
    outcome TEXT,                           -- completed, dead, cancelled; NULL: it comes back
    at BIGINT, state BYTEA, error TEXT);    -- new values; NULL: as they were. An error uses up an attempt

-- Messages whose attempts are used up.
CREATE TABLE dead (
    id BIGINT PRIMARY KEY,
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    dequeue_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    dequeued_at BIGINT,
    first_dequeued_at BIGINT,
    dead_at BIGINT NOT NULL,
    generation INT NOT NULL,                -- a retry goes on from here: a token of this life must not fit the next one
    attempts INT NOT NULL,
    max_attempts INT,
    cost INT NOT NULL,
    priority SMALLINT NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    dedupe_key TEXT COLLATE "C",
    consumer TEXT,
    error TEXT,
    headers JSONB,
    past_errors JSONB,
    state BYTEA,
    content BYTEA NOT NULL
);
CREATE INDEX dead_channel_ix ON dead (channel, id);
CREATE INDEX dead_xid_ix ON dead (xid);     -- they are followed as the history is

-- A transaction that was open, or only partly read, and up to which of its notices it is read.
CREATE TYPE open_transaction AS (xid XID8, id BIGINT);

-- How a channel stands when messages of it are placed in a lane: whether it has a line, whether recent has a tag for
-- it, what it may do (see channel_room), and the tag of its next message.
CREATE TYPE standing AS (channel TEXT, has_line BOOLEAN, is_remembered BOOLEAN, room INT, step DOUBLE PRECISION,
    tag BIGINT);

-- Created messages that are still to be placed: those from lo_id to hi_id that have this xid and generation 0.
CREATE TYPE span AS (xid XID8, lo_id BIGINT, hi_id BIGINT);

-- What notices tell a dispatch together, what is due, and the queue's limits.
CREATE TYPE reading AS (
    snapshot PG_SNAPSHOT,                   -- all that this sees is read, unless is_behind
    n_newer INT,                            -- how many notices are newer than the tick
    is_behind BOOLEAN,                      -- there are more
    spans span[],
    hinted TEXT[],                          -- channels to look at again
    waiting BIGINT,                         -- by how much the number of waiting messages changes
    taken BIGINT, taken_at BIGINT,          -- how many dequeues took, and when the last one did
    wanted BIGINT,                          -- how many they asked for
    lease_min_at BIGINT, lease_max_at BIGINT,   -- the first and the last end of a lease
    has_back BOOLEAN, has_asked BOOLEAN, has_gone BOOLEAN,
    has_scheduled BOOLEAN, has_alarms BOOLEAN, has_leases BOOLEAN, -- some of these are due
    max INT,                                -- the limit over all channels
    has_policies BOOLEAN,
    has_changes BOOLEAN);                   -- some of them changed

-- How a lane stands.
CREATE TYPE lane_state AS (
    name TEXT,
    v BIGINT,                               -- virtual time: the tag that is served now
    floor BIGINT,                           -- ready has no entry below, but for those in held
    -- a line has a message with this tag: below, ready is complete; it is served up to here
    horizon BIGINT,
    issued BIGINT,                          -- the highest tag so far
    target INT,                             -- how many entries ready should have: follows what consumers ask for
    low_tag BIGINT, low_id BIGINT,          -- once all entries up to this one are taken, ready is refilled
    stuck_at BIGINT,                        -- since when an open dequeue holds the floor; NULL: it does not
    front BIGINT,                           -- the tag that was next to be served; NULL: none
    served_at BIGINT);                      -- when somebody last took something from it, or asked in vain

-- How far the dispatcher has come: one live row, replaced by each dispatch that does something.
CREATE TABLE tick (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    seen_xid XID8 NOT NULL, seen_id BIGINT NOT NULL, -- notices up to here are read,
    open open_transaction[] NOT NULL,       -- but for these transactions
    spans span[] NOT NULL,
    due_to BIGINT NOT NULL,                 -- scheduled has no row up to here, but for those with an alarm
    alarm_to BIGINT NOT NULL,               -- alarm has no row up to here
    held_at BIGINT,                         -- when to look at held again; NULL: it is empty
    swept_at BIGINT NOT NULL,               -- leases that end up to here are swept
    lease_max_at BIGINT NOT NULL,           -- no lease ends after this
    policy_xid XID8 NOT NULL DEFAULT '0',   -- policy_change has no row below
    lanes lane_state[] NOT NULL,
    waiting BIGINT NOT NULL,
    served BIGINT NOT NULL,
    served_at BIGINT,                       -- the last dequeue
    tallied_at BIGINT NOT NULL, tallied_id BIGINT NOT NULL, -- when served_by was last summed up, and how far
    -- messages above, up to walk_to, are still to be looked for: after rebuild()
    walk_id BIGINT, walk_to BIGINT,
    walk_snapshot PG_SNAPSHOT,              -- those that this snapshot sees; the notices of others are still to be read
    started_at TIMESTAMPTZ NOT NULL, system_id BIGINT NOT NULL -- of the server that wrote it
);
INSERT INTO tick (at, seen_xid, seen_id, open, spans, due_to, alarm_to, swept_at, lease_max_at, lanes, waiting,
    served, tallied_at, tallied_id, started_at, system_id)
SELECT 0, pg_snapshot_xmax(pg_current_snapshot()), 0,
    COALESCE(array_agg(ROW(x, 0)::open_transaction) FILTER (WHERE x < pg_snapshot_xmax(pg_current_snapshot())),
        '{}'), '{}',
    -9223372036854775808, -9223372036854775808, 0, 0, ARRAY[ROW('default', 0, 0, 9223372036854775807, 0, 100,
        0, 0, NULL, NULL, NULL)::lane_state], 0, 0, 0, 0,
    pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system())
FROM (SELECT pg_current_xact_id() UNION SELECT pg_snapshot_xip(pg_current_snapshot())) o (x);

-- Whoever holds this row dispatches. A row and not an advisory lock: nobody without rights on it can hold it.
CREATE TABLE dispatch_lock (only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row));
INSERT INTO dispatch_lock DEFAULT VALUES;

-- What was taken, by channel: a row of up to 500 channels for each dispatch that read of it, until it is summed up in
-- tally.
CREATE TABLE served_by (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shares share[] NOT NULL
);
CREATE TABLE tally (
    channel TEXT COLLATE "C" PRIMARY KEY,
    served BIGINT NOT NULL,
    served_at BIGINT NOT NULL
);

-- What a create must know, in one live row that is found from the high end: whether a consumer sleeps until it is
-- notified, and what the queue's settings ask of a message. It goes from asleep to not asleep only in a transaction
-- that notifies, so whoever relied on it hears of that.
CREATE TABLE sleep (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    is_asleep BOOLEAN NOT NULL,
    is_special BOOLEAN NOT NULL DEFAULT FALSE,  -- the queue has sizes or bound credentials
    content_max_bytes INT NOT NULL DEFAULT 1048576
);
INSERT INTO sleep (is_asleep, content_max_bytes) SELECT FALSE, q.content_max_bytes FROM queue q;

-- How far maintain() has cleaned, and the lock that keeps two of them apart.
CREATE TABLE upkeep (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    cleaned_xid XID8 NOT NULL DEFAULT '0',  -- notices below are gone,
    passed_xid XID8 NOT NULL DEFAULT '0',   -- and those below this, but for what was open
    held_xid XID8,                          -- the lowest transaction that was
    dedupe_from BIGINT NOT NULL DEFAULT 0,  -- keys that are free since before are gone
    dedupe_day BIGINT NOT NULL DEFAULT 0,   -- when all of them were last looked for
    trimmed_xid XID8 NOT NULL DEFAULT '0',  -- the history's rows up to this may be gone
    unmarked_xid XID8 NOT NULL DEFAULT '0'  -- the rows of dead_mark up to this may be gone
);
INSERT INTO upkeep DEFAULT VALUES;
