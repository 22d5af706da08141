-- A task that a worker does not know: how many messages for it the worker has met, and since when.
CREATE TYPE unknown_task AS (task TEXT, messages BIGINT, since_at BIGINT);

-- The worker processes. Each reports every few seconds, and deletes its row when it stops; maintain deletes the rows of
-- workers that died. The engine does not depend on this table: leases decide who has a message. No index on a column
-- that a report changes, and room in the pages: so a report is a HOT update.
CREATE TABLE worker (
    id UUID PRIMARY KEY,
    pid INT NOT NULL,
    concurrency INT NOT NULL,
    running INT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,                -- the last report
    state TEXT NOT NULL,                    -- as reported: serving, paused or draining
    requested TEXT NOT NULL,                -- what an administrator wants it to be
    name TEXT COLLATE "C" NOT NULL,
    host TEXT COLLATE "C" NOT NULL,
    version TEXT NOT NULL,
    unknown_tasks unknown_task[] NOT NULL,
    lanes TEXT[],                           -- NULL: all
    tasks TEXT[] NOT NULL                   -- '' stands for messages without a task
) WITH (fillfactor = 50);
