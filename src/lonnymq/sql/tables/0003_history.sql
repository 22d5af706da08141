-- The history of finished messages and of policies, and its followers.

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

-- What the policies were, and since when: one row per change, with the whole policy after it. It is written whether or
-- not the queue keeps a history. A row is needed for as long as the history of the time in which it applied: see
-- policy_trim. The newest row of each scope and channel stays, unless the channel's policy was deleted.
CREATE TABLE policy_log (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    at BIGINT NOT NULL,
    superseded_at BIGINT,                   -- when the next row was written, or it was deleted; NULL: it applies
    scope TEXT NOT NULL,                    -- queue; default: what channels inherit; channel
    channel TEXT COLLATE "C" NOT NULL DEFAULT '', -- '' unless scope is channel
    -- As in the tables channel and queue: a limit of NULL is inherited if scope is channel, otherwise it means none.
    max_concurrency INT,
    release_interval_us BIGINT,
    burst INT,
    paused BOOLEAN,
    max_size INT,
    weight NUMERIC,
    is_deleted BOOLEAN NOT NULL DEFAULT FALSE -- the channel has no policy of its own any more
);
CREATE UNIQUE INDEX policy_log_newest_ix ON policy_log (scope, channel) WHERE superseded_at IS NULL;
CREATE INDEX policy_log_xid_ix ON policy_log (xid);
CREATE INDEX policy_log_channel_ix ON policy_log (channel, xid); -- for a login that is bound to channels
CREATE INDEX policy_log_superseded_ix ON policy_log (superseded_at) WHERE superseded_at IS NOT NULL;
INSERT INTO policy_log (at, scope, max_concurrency, release_interval_us, burst, paused, max_size)
SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT), s.scope, s.max_concurrency, s.interval_us,
    s.burst, s.paused, s.max_size
FROM queue q CROSS JOIN LATERAL (
    VALUES ('queue', q.max_concurrency, NULL::BIGINT, NULL::INT, q.paused, NULL::INT),
        ('default', q.channel_max_concurrency, q.channel_release_interval_us, q.channel_burst, NULL,
            q.channel_max_size)) s (scope, max_concurrency, interval_us, burst, paused, max_size);
