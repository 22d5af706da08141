-- Batches: messages that are created under one name and counted together. When the last of them is finished, and when
-- the first of them dies, a callback is created in the same transaction.

-- A message to create later. options are options of message_create by name: {"priority": 7}.
CREATE TYPE callback AS (channel TEXT, content BYTEA, options JSONB);

-- The batches; rarely written. A call that adds messages locks the row FOR KEY SHARE, so that closing the batch waits
-- for it. It waits for no other call that adds messages, and for no call that finishes them.
CREATE TABLE batch (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction that opened it
    created_at BIGINT NOT NULL,
    closed_at BIGINT,                       -- NULL: messages may be added
    cancelled_at BIGINT,
    name TEXT COLLATE "C" NOT NULL,
    on_complete callback,
    on_failure callback
);

-- How many messages one call added, and between which ids they are. Without ids: the callback of another batch, which
-- belongs to this batch and does not exist yet; when it is created, a second row has its id, and adds 0.
CREATE TABLE batch_part (
    batch_id BIGINT NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    n BIGINT NOT NULL,
    lo_id BIGINT, hi_id BIGINT,
    PRIMARY KEY (batch_id, id)
);

-- The counts of each batch: one live row, which is the one with the highest turn. Calls that finish messages of the
-- batch lock it, so of two that finish the last messages, the second sees what the first did.
CREATE TABLE batch_count (
    batch_id BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    total BIGINT,                           -- NULL: the batch is open, and batch_part has the sum
    completed BIGINT NOT NULL DEFAULT 0,
    dead BIGINT NOT NULL DEFAULT 0,         -- minus those that were retried since
    cancelled BIGINT NOT NULL DEFAULT 0,    -- or discarded
    failed_at BIGINT,                       -- when the first message died,
    failed_id BIGINT,                       -- and which one
    finished_at BIGINT,                     -- NULL: it is open, or some messages are not finished
    is_called BOOLEAN NOT NULL DEFAULT FALSE,   -- on_complete was created, or will never be
    PRIMARY KEY (batch_id, turn)
);
CREATE INDEX batch_count_finished_ix ON batch_count (finished_at) WHERE finished_at IS NOT NULL;

-- A message of a batch that is finished.
CREATE TYPE batch_ending AS (batch_id BIGINT, id BIGINT, outcome TEXT);

-- What batch_get and batch_list return.
CREATE TYPE batch_status AS (
    id BIGINT, name TEXT, status TEXT, total BIGINT, waiting BIGINT, leased BIGINT, completed BIGINT, dead BIGINT,
    cancelled BIGINT, created_at BIGINT, closed_at BIGINT, cancelled_at BIGINT, failed_at BIGINT, failed_id BIGINT,
    finished_at BIGINT);
