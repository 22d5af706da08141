-- The path of a message. A message is in one place at a time, and each place is a table:
--   just created, or come back   message, and a notice that the dispatcher has not read yet
--   not due yet                  scheduled
--   due, and waiting             line
--   next to be served            ready
--   leased                       lease
--   finished                     dead, or finished (history)
-- Every call appends notices. Only the dispatcher moves messages, up to ready; consumers take them from there.

-- Numbers rows that change often. Such a row is replaced by one with a higher turn, and readers find it by reading the
-- index from its high end, so that they do not read the dead rows.
CREATE SEQUENCE turn;

-- The queue's settings: one row.
CREATE TABLE queue (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    content_max_bytes INT NOT NULL DEFAULT 1048576,
    lease_ms BIGINT NOT NULL DEFAULT 30000,                     -- for a dequeue that does not give one
    lease_max_ms BIGINT NOT NULL DEFAULT 86400000,
    max_attempts INT NOT NULL DEFAULT 5,
    max_concurrency INT,                                        -- over all channels; NULL: no limit
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    history BOOLEAN NOT NULL DEFAULT FALSE,
    history_content BOOLEAN NOT NULL DEFAULT FALSE,
    history_keep_ms BIGINT NOT NULL DEFAULT 2592000000,         -- 0: forever
    batch_keep_ms BIGINT NOT NULL DEFAULT 604800000,            -- after a batch is finished; 0: forever
    audit_keep_ms BIGINT NOT NULL DEFAULT 7776000000,           -- 0: forever
    notify BOOLEAN NOT NULL DEFAULT TRUE,
    -- The limits of every channel that does not set its own; NULL: no limit, and a burst of 1. See channel_limits.
    channel_max_concurrency INT,
    channel_release_interval_us BIGINT,
    channel_burst INT,
    channel_max_size INT,
    sizes_turn BIGINT NOT NULL DEFAULT 0,                       -- a new number for each change of channel_max_size
    -- Whether a feature is in use: calls skip what nobody uses.
    has_sizes BOOLEAN NOT NULL DEFAULT FALSE,                   -- some channel has, or had, a max_size
    has_bound BOOLEAN NOT NULL DEFAULT FALSE                    -- some credential is bound to channels
);
INSERT INTO queue DEFAULT VALUES;

-- How the other tables refer to a message. Each time a message comes back, its generation rises by one, and stubs with
-- the old generation no longer match it.
CREATE TYPE stub AS (id BIGINT, generation INT);

-- A message while the dispatcher decides where to put it. Within a channel, messages are served in the order
-- (rank, at, id).
CREATE TYPE entry AS (
    id BIGINT, generation INT,
    rank SMALLINT,                          -- the negated priority
    at BIGINT,                              -- dequeue_at
    cost INT, lane TEXT, channel TEXT);

-- The messages. All other places can be rebuilt from this table and the leases. Rows are looked up by id only.
CREATE TABLE message (
    -- CACHE 1, because message_create_many relies on new ids being higher than all earlier ones.
    id BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    -- First what is never NULL: PostgreSQL reads a row up to the last column that it needs, and reads fixed offsets
    -- until a NULL or a text.
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction whose notice announces it
    dequeue_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    generation INT NOT NULL DEFAULT 0,      -- how often it came back
    -- attempts that failed or whose lease ran out. Calls that show a leased message add the running one
    attempts INT NOT NULL DEFAULT 0,
    cost INT NOT NULL DEFAULT 1,            -- what it counts against its channel's share
    priority SMALLINT NOT NULL DEFAULT 0,
    is_counted BOOLEAN NOT NULL DEFAULT FALSE,      -- counts towards its channel's max_size
    is_cancelled BOOLEAN NOT NULL DEFAULT FALSE,    -- cancelled while leased: the next call with its token reports that
    lane TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    channel TEXT COLLATE "C" NOT NULL,
    content BYTEA NOT NULL,
    max_attempts INT,                       -- NULL: the queue's setting
    dequeued_at BIGINT,                     -- the last dequeue whose lease has ended; the lease has the running one
    first_dequeued_at BIGINT,               -- the first dequeue, if there were several
    rejected_at BIGINT,                     -- since when consumers have rejected it; NULL: not since its last attempt
    batch_id BIGINT,                        -- finishing it is counted there
    keep_result_ms BIGINT,                  -- how long its result is kept after it finished; NULL: it is not kept
    unique_for_ms BIGINT,                   -- how long it holds its key: see dedupe
    dedupe_key TEXT COLLATE "C",
    consumer TEXT,                          -- of the last dequeue whose lease has ended
    error TEXT,
    headers JSONB,
    past_errors JSONB,                      -- errors from before dead_retry: [{"at", "attempts", "error"}]
    past_runs BIGINT[],                     -- see finished.past_runs; written only while the queue keeps a history
    state BYTEA
);

-- A message to create: the parameters of message_create. message_check checks it. Without collations: a field of a row
-- that has another collation than its expression is not simplified when message_check is planned into a statement.
-- It is a table, which stays empty, and not a type, so that staging can inherit from it.
CREATE TABLE new_message (
    channel TEXT, content BYTEA, dequeue_at BIGINT, headers JSONB, max_attempts INT, dedupe_key TEXT, delay_ms BIGINT,
    priority INT, cost INT, lane TEXT, unique_while TEXT, unique_for_ms BIGINT, keep_result_ms BIGINT,
    batch_id BIGINT);
-- It has no key. Without a replica identity, a publication FOR ALL TABLES would refuse deletes.
ALTER TABLE new_message REPLICA IDENTITY FULL;

-- Many messages to create, with an array per option: what staging_chunk inherits, see staging_rows_query. An array
-- that is NULL leaves its option open for all of them; the others have one element per message. Headers are JSON texts.
-- Unlogged, as staging_chunk is: a publication FOR ALL TABLES leaves it out, and would refuse its generated column.
CREATE UNLOGGED TABLE new_messages (
    channel TEXT[] NOT NULL, content BYTEA[] NOT NULL, dequeue_at BIGINT[], headers TEXT[], max_attempts INT[],
    dedupe_key TEXT[], priority INT[], cost INT[], lane TEXT[], unique_while TEXT[], unique_for_ms BIGINT[],
    keep_result_ms BIGINT[], batch_id BIGINT[],
    is_plain BOOLEAN NOT NULL GENERATED ALWAYS AS (num_nonnulls(dequeue_at, headers, max_attempts, dedupe_key, priority,
        cost, lane, unique_while, unique_for_ms, keep_result_ms, batch_id) = 0) STORED);
-- They are read once: compressing them would cost more than it saves.
ALTER TABLE new_messages ALTER channel SET STORAGE EXTERNAL, ALTER content SET STORAGE EXTERNAL,
    ALTER headers SET STORAGE EXTERNAL, ALTER dedupe_key SET STORAGE EXTERNAL, ALTER lane SET STORAGE EXTERNAL;

-- How many messages dequeues took from a channel, and when the last one did.
CREATE TYPE share AS (channel TEXT, n INT, at BIGINT);

-- News for the dispatcher, which calls append instead of locking anything. The writer's transaction id (xid8) lets the
-- dispatcher read each notice exactly once, in whatever order the writers commit. A row reports one of these:
--   lo_id, hi_id       this transaction created messages: those with its xid, generation 0 and an id in this span
--   back               these messages came back. With at: place them at that time, because they are locked now
--   lease_end_at       a lease now ends at this time. With taken, at and wanted: by a dequeue; what it took, when, and
--                      how many messages it asked for
--   asked              a dequeue found nothing in these lanes, so they have a consumer
--   gone               these entries are void: their messages were cancelled or rescheduled
--   channel            look at this channel again: its policy changed, or a slot came free. '': the whole queue
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

-- Messages that are not due yet, of all channels, in the order of time.
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

-- What the dispatcher has to look at again at a certain time: a channel; the leases that end at lease_end_at, some of
-- which were locked; a row of scheduled that was locked; or a message that is in no other place because it was locked.
CREATE TABLE alarm (
    at BIGINT NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    channel TEXT COLLATE "C",
    lease_end_at BIGINT,
    scheduled_at BIGINT, scheduled_id BIGINT, scheduled_generation INT,
    back stub,
    PRIMARY KEY (at, id)
);

-- Due messages that are not in ready yet. A line is the backlog of one channel in one lane. Only the dispatcher writes
-- here.
CREATE TABLE line (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    rank SMALLINT NOT NULL,
    at BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    cost INT NOT NULL,
    PRIMARY KEY (channel, lane, rank, at, id, generation) -- an older generation may be left, and is void
);

-- A part of a line that may have messages, ends included. Outside of its ranges a line has none.
CREATE TYPE line_range AS (lo_rank SMALLINT, lo_at BIGINT, lo_id BIGINT, hi_rank SMALLINT, hi_at BIGINT, hi_id BIGINT);

-- The state of each line: one live row, which is the one with the highest turn. When a line becomes empty, its row
-- stays for a while, without ranges, so that a reader finds it at once and does not read the dead rows before it.
CREATE TABLE backlog (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    turn BIGINT NOT NULL,
    tag BIGINT NOT NULL,                    -- the tag of its next message
    is_open BOOLEAN NOT NULL,               -- its channel may release; if not, a notice or an alarm will reopen it
    n BIGINT NOT NULL,                      -- how many messages it has
    ranges line_range[] NOT NULL,           -- in order
    PRIMARY KEY (channel, lane, turn)
) WITH (fillfactor = 70);
-- The new state of a line after a refill, and when to look again if its channel's rate stops it.
CREATE TYPE line_state AS (
    tid TID, channel TEXT, tag BIGINT, is_open BOOLEAN, n BIGINT, ranges line_range[], again_at BIGINT);
CREATE INDEX backlog_tag_ix ON backlog (lane, tag, turn) WHERE is_open;
CREATE INDEX backlog_ended_ix ON backlog (turn) WHERE ranges = '{}';

-- The messages to be served next, lowest tag first. Tags are virtual time: within a channel, each message has a tag
-- that is higher by cost / weight than the one before, so that channels advance together.
CREATE TABLE ready (
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    rank SMALLINT NOT NULL,
    at BIGINT NOT NULL,
    cost INT NOT NULL,
    is_limited BOOLEAN NOT NULL,            -- others may wait for its slot: finishing it appends a notice
    channel TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, tag, id, generation)
);
CREATE INDEX ready_channel_ix ON ready (channel, tag, id); -- tags of different lanes are not comparable

-- Entries of ready that an open dequeue has locked for more than a second, so that the floor of the lane has moved past
-- them. If that dequeue is rolled back, they go back into their lines.
CREATE TABLE ready_locked (
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    id BIGINT NOT NULL,
    generation INT NOT NULL,
    PRIMARY KEY (lane, tag, id, generation)
);

-- The next tag of channels that have no line, if their next message comes soon: see recent_tag_write.
CREATE TABLE recent_tag (
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    tag BIGINT NOT NULL,
    PRIMARY KEY (channel, lane, tag)
);
-- On an expression, so that a lookup by channel always uses the primary key.
CREATE INDEX recent_tag_order_ix ON recent_tag ((tag + 0), lane);

-- The leases: one row for up to 100 messages of a dequeue, in the order of their ids. A stub whose message is gone, or
-- has another generation, is no longer leased; the row is deleted when that is true of all.
CREATE TABLE lease (
    token UUID NOT NULL,
    last_id BIGINT NOT NULL,                -- the highest id in this row
    end_at BIGINT NOT NULL,
    dequeued_at BIGINT NOT NULL,
    is_limited BOOLEAN NOT NULL,            -- some of its messages were: see ready.is_limited
    consumer TEXT,
    stubs stub[] NOT NULL,
    PRIMARY KEY (token, last_id)
);
CREATE INDEX lease_end_ix ON lease (end_at);

-- The result that a completing call gives, and how long it is kept (NULL: as long as the message says).
CREATE TYPE given_result AS (content BYTEA, content_type TEXT, keep_ms BIGINT);

-- How a message ends, or that it comes back: used by the calls that finish or cancel messages, and by leases_sweep.
CREATE TYPE ending AS (
    ord BIGINT,                             -- its position in the arguments of the call
    id BIGINT, generation INT,
    token UUID, last_id BIGINT,             -- its lease; NULL: it was not leased
    dequeued_at BIGINT, consumer TEXT, is_limited BOOLEAN,
    channel TEXT,
    outcome TEXT,                           -- completed, dead, cancelled; NULL: it comes back
    at BIGINT, state BYTEA, error TEXT,     -- new values; NULL: unchanged. An error uses up an attempt
    result given_result);                   -- of a completed one; NULL: none was given

-- Dead letters: messages whose attempts are used up.
CREATE TABLE dead (
    id BIGINT PRIMARY KEY,
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    dequeue_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    dequeued_at BIGINT,
    first_dequeued_at BIGINT,
    batch_id BIGINT,
    dead_at BIGINT NOT NULL,
    generation INT NOT NULL,                -- a retry continues from here, so that old tokens do not match
    attempts INT NOT NULL,
    max_attempts INT,
    keep_result_ms BIGINT,
    cost INT NOT NULL,
    priority SMALLINT NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    dedupe_key TEXT COLLATE "C",
    unique_for_ms BIGINT,
    consumer TEXT,
    error TEXT,
    headers JSONB,
    past_errors JSONB,
    state BYTEA,
    content BYTEA NOT NULL
);
CREATE INDEX dead_channel_ix ON dead (channel, id);
CREATE INDEX dead_xid_ix ON dead (xid);     -- readers follow them like the history

-- A transaction that was open or only partly read, and up to which id its notices are read.
CREATE TYPE open_transaction AS (xid XID8, id BIGINT);

-- The state of a channel while its messages are placed in a lane: whether it has a line, whether recent_tag has its
-- next tag, how many messages it may release and by how much they advance it (see channel_room), and its next tag.
CREATE TYPE channel_state AS (channel TEXT, has_line BOOLEAN, is_remembered BOOLEAN, room INT, step DOUBLE PRECISION,
    tag BIGINT);

-- Created messages that are not placed yet: those with this xid, generation 0, and an id from lo_id to hi_id.
CREATE TYPE span AS (xid XID8, lo_id BIGINT, hi_id BIGINT);

-- What a dispatch has read: a summary of the new notices, what is due, and the limit of the queue.
CREATE TYPE notice_summary AS (
    snapshot PG_SNAPSHOT,                   -- everything it sees is read, unless is_behind
    n_newer INT,                            -- how many notices are newer than the tick
    is_behind BOOLEAN,                      -- there are more than were read
    spans span[],
    hinted TEXT[],                          -- channels to look at again
    waiting BIGINT,                         -- by how much the number of waiting messages changes
    taken BIGINT, taken_at BIGINT,          -- how many messages dequeues took, and when
    wanted BIGINT,                          -- how many they asked for
    lease_min_at BIGINT, lease_max_at BIGINT,   -- the earliest and latest end of a lease
    has_back BOOLEAN, has_asked BOOLEAN, has_gone BOOLEAN,
    has_scheduled BOOLEAN, has_alarms BOOLEAN, has_leases BOOLEAN, -- whether any are due
    max INT,                                -- max_concurrency of the queue
    has_policies BOOLEAN,
    has_changes BOOLEAN);                   -- policies changed

-- The state of a lane.
CREATE TYPE lane_state AS (
    name TEXT,
    v BIGINT,                               -- virtual time: the tag that is served now
    floor BIGINT,                           -- ready is read from here; below are only entries in ready_locked
    -- The lowest tag in a line that may release: below, ready is complete; dequeues take nothing above. The highest
    -- BIGINT: there is no such line.
    horizon BIGINT,
    issued BIGINT,                          -- the highest tag so far
    target INT,                             -- how many entries ready should have; depends on demand
    low_tag BIGINT, low_id BIGINT,          -- once all entries up to this one are taken, ready is refilled
    stuck_at BIGINT,                        -- since when an open dequeue stops the floor; NULL: none does
    front BIGINT,                           -- the tag that was next to be served; NULL: none
    served_at BIGINT);                      -- when a dequeue last took from it, or found it empty

-- The saved state of the dispatcher: one live row, replaced by each dispatch that does something.
CREATE TABLE tick (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    seen_xid XID8 NOT NULL, seen_id BIGINT NOT NULL, -- notices up to here are read
    open open_transaction[] NOT NULL,       -- except for those of these transactions
    spans span[] NOT NULL,
    due_to BIGINT NOT NULL,                 -- scheduled has no row up to this time, except those with an alarm
    alarm_to BIGINT NOT NULL,               -- alarm has no row up to this time
    locked_check_at BIGINT,                 -- when to look at ready_locked again; NULL: it is empty
    swept_at BIGINT NOT NULL,               -- leases that end up to this time are swept
    lease_max_at BIGINT NOT NULL,           -- no lease ends later
    policy_xid XID8 NOT NULL DEFAULT '0',   -- policy_change has no row below this
    lanes lane_state[] NOT NULL,
    waiting BIGINT NOT NULL,
    served BIGINT NOT NULL,
    served_at BIGINT,                       -- when the last dequeue took something
    tallied_at BIGINT NOT NULL, tallied_id BIGINT NOT NULL, -- when served_by was added to tally, and up to which id
    -- A rescan after a restore or rebuild(): messages above rescan_id, up to rescan_to, may be in no place. It covers
    -- those that rescan_snapshot sees; the notices of the others are still to be read.
    rescan_id BIGINT, rescan_to BIGINT, rescan_snapshot PG_SNAPSHOT,
    started_at TIMESTAMPTZ NOT NULL, system_id BIGINT NOT NULL -- the server that wrote it
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

-- The session that has locked this row is the dispatcher. It is not an advisory lock, because anybody can take those.
CREATE TABLE dispatch_lock (only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row));
INSERT INTO dispatch_lock DEFAULT VALUES;

-- How many messages were served, by channel. Each dispatch appends rows of up to 500 channels to served_by; once per
-- second these are added to tally and deleted.
CREATE TABLE served_by (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shares share[] NOT NULL
);
CREATE TABLE tally (
    channel TEXT COLLATE "C" PRIMARY KEY,
    served BIGINT NOT NULL,
    served_at BIGINT NOT NULL
);

-- What a create needs to know, in one live row, the one with the highest id: whether a consumer sleeps until it is
-- notified, and what the queue's settings require of a message. is_asleep is cleared only in a transaction that
-- notifies, so that every consumer that relied on it wakes up.
CREATE TABLE sleep (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    is_asleep BOOLEAN NOT NULL,
    is_special BOOLEAN NOT NULL DEFAULT FALSE,  -- the queue has max_size limits or bound credentials
    content_max_bytes INT NOT NULL DEFAULT 1048576
);
INSERT INTO sleep (is_asleep, content_max_bytes) SELECT FALSE, q.content_max_bytes FROM queue q;

-- How far maintain() has come. Its row is also the lock that allows only one maintain() at a time.
CREATE TABLE maintenance (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    cleaned_xid XID8 NOT NULL DEFAULT '0',  -- all notices below are deleted
    passed_xid XID8 NOT NULL DEFAULT '0',   -- notices below are deleted, except of open transactions
    open_xid XID8,                          -- the lowest of these
    dedupe_from BIGINT NOT NULL DEFAULT 0,  -- keys that became free before this are deleted
    dedupe_day BIGINT NOT NULL DEFAULT 0,   -- the day on which all keys were last read
    trimmed_xid XID8 NOT NULL DEFAULT '0',  -- history rows up to this may be gone
    unmarked_xid XID8 NOT NULL DEFAULT '0', -- rows of dead_mark up to this may be gone
    policies_xid XID8 NOT NULL DEFAULT '0', -- superseded rows of policy_log up to this may be gone
    results_from BIGINT NOT NULL DEFAULT 0, -- results that were kept until before this are deleted
    progress_id BIGINT NOT NULL DEFAULT 0,  -- rows of progress up to this message were looked at,
    progress_at BIGINT NOT NULL DEFAULT 0   -- and when the last look at all of them was complete
);
INSERT INTO maintenance DEFAULT VALUES;
