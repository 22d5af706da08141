-- The work, and the only table that cannot be remade from another one.
-- A message waits or is leased, and stands in the partial indexes of one of the two. The flag they ask for is a
-- column of its own: a predicate on the token or on the lease's end would invite the planner to look a message
-- up through the lease index, dead entries and all, instead of by its id.
CREATE TABLE message (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dequeue_at BIGINT NOT NULL,             -- kept while leased, so that what comes back comes back to its place
    created_at BIGINT NOT NULL,
    lease_end_at BIGINT,
    attempts INT NOT NULL DEFAULT 0,        -- used up, the running one not counted
    max_attempts INT,                       -- NULL: the queue's
    leased BOOLEAN NOT NULL DEFAULT FALSE,
    slot BOOLEAN NOT NULL DEFAULT FALSE,    -- leased under a concurrency limit: whoever ends the lease says so
    token UUID,
    channel TEXT COLLATE "C" NOT NULL,
    consumer TEXT,
    error TEXT,
    headers JSONB,
    state BYTEA,
    content BYTEA NOT NULL
);
CREATE INDEX message_dequeue_ix ON message (channel, dequeue_at, id) WHERE NOT leased;
CREATE INDEX message_lease_ix ON message (lease_end_at, id) WHERE leased;
-- The leases of one channel, for a login that is bound to it: it must not read the leases of others. The condition is written so that only
-- a query that repeats it uses this index, and such a query cannot use the other one: the planner would mix them up.
CREATE INDEX message_channel_lease_ix ON message (channel, lease_end_at, id) WHERE leased::INT = 1;
