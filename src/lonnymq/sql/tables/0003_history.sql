-- The history of finished messages, and its followers.

-- One row per finished message, if the queue keeps a history; rows are appended and never changed. There is one
-- partition per day (UTC), created ahead of time; finished_other takes rows without one. The writer's xid8 lets a
-- reader follow the table by snapshot: it reads each row once, in whatever order the writers commit.
CREATE TABLE finished (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    id BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    dequeue_at BIGINT NOT NULL,
    first_dequeued_at BIGINT,
    dequeued_at BIGINT,
    finished_at BIGINT NOT NULL,
    attempts INT NOT NULL,                  -- started ones, the last one included
    content_bytes INT NOT NULL,
    cost INT NOT NULL,
    priority SMALLINT NOT NULL,
    outcome TEXT NOT NULL,                  -- completed, dead, cancelled
    lane TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    consumer TEXT,
    error TEXT,
    dedupe_key TEXT COLLATE "C",
    headers JSONB,
    -- The runs before the last one, the oldest first: for each, when it was due, when it was dequeued and when it came
    -- back. A run is one lease, whether it counts as an attempt or not. Of more than 100 runs, the first one and the
    -- newest are kept. NULL: there were none since the message was created, or since dead_retry.
    past_runs BIGINT[],
    content BYTEA                           -- with history_content; otherwise NULL
) PARTITION BY RANGE (finished_at);
CREATE INDEX finished_xid_ix ON finished (xid);
CREATE INDEX finished_channel_ix ON finished (channel, finished_at, id);
CREATE INDEX finished_id_ix ON finished (id); -- for status_get
CREATE TABLE finished_other PARTITION OF finished DEFAULT;
-- Without a primary key, a publication FOR ALL TABLES would refuse deletes. FULL needs no index. It adds a deleted
-- row's content to the WAL if wal_level is logical, and costs nothing otherwise. Each partition needs it too: see
-- history_prepare.
ALTER TABLE finished REPLICA IDENTITY FULL;
ALTER TABLE finished_other REPLICA IDENTITY FULL;

-- Readers that follow the history, and how far each has stored it: nothing is dropped before every follower has it.
CREATE TABLE follower (
    name TEXT COLLATE "C" PRIMARY KEY,
    snapshot PG_SNAPSHOT NOT NULL,
    system_id BIGINT NOT NULL,              -- the cluster that the snapshot belongs to
    at BIGINT NOT NULL
);

-- One row per channel and transaction in which messages died. It stays when they are retried or discarded, so that
-- history_mark can tell the past of this database from that of another one. Kept for 90 days.
CREATE TABLE dead_mark (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    channel TEXT COLLATE "C" NOT NULL,
    mark BIGINT NOT NULL,                   -- random
    at BIGINT NOT NULL,
    PRIMARY KEY (xid, channel)
);
CREATE INDEX dead_mark_channel_ix ON dead_mark (channel, xid); -- for a login that is bound to channels
