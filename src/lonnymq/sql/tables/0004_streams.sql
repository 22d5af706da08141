-- For writers and readers that work in batches and continue where they stopped, such as Spark jobs.

-- Rows of bulk loads, inserted by COPY and by many sessions at once, until staging_publish creates messages from a
-- batch. Producers may only insert here, and cannot set staged_by. Unlogged, because a row is written twice, here and
-- to message, and WAL is half of its cost. After a crash or a failover it is empty: whoever has staged rows compares
-- the number that a publication returns with the number of rows, and stages them again if some are missing.
CREATE UNLOGGED TABLE staging (
    batch UUID NOT NULL,
    ord BIGINT NOT NULL,                    -- orders the batch; need not be dense
    staged_by REGROLE NOT NULL DEFAULT quote_ident(session_user)::REGROLE, -- survives a rename of the login
    staged_at BIGINT NOT NULL DEFAULT date_part('epoch', now()) * 1000 -- a double: EXTRACT is three times as slow
) INHERITS (new_message);                   -- without delay_ms: nobody may write it
CREATE INDEX staging_ix ON staging (staged_by, batch, ord); -- a login reads only its own rows
CREATE INDEX staging_at_ix ON staging (staged_at);

-- Staged rows, many of them in one row of this table, with an array per column. They need no index entry, no default
-- and no delete of their own, which are most of what a row of staging costs.
CREATE UNLOGGED TABLE staging_chunk (
    batch UUID NOT NULL,
    ord BIGINT NOT NULL,                    -- the ord of the first; the others follow
    staged_by REGROLE NOT NULL DEFAULT quote_ident(session_user)::REGROLE,
    staged_at BIGINT NOT NULL DEFAULT date_part('epoch', now()) * 1000
) INHERITS (new_messages);
CREATE INDEX staging_chunk_ix ON staging_chunk (staged_by, batch, ord);
CREATE INDEX staging_chunk_at_ix ON staging_chunk (staged_at);

-- The last batch that each app (a job or stream) has published, so that a repeated batch publishes nothing. Apps belong
-- to the queue, so that a deployment with another login does not publish twice. A login that is bound to channels has
-- apps of its own: it could otherwise use up the versions of another tenant.
CREATE TABLE ledger (
    bound_login REGROLE NOT NULL,           -- survives a rename of the login; 0: all logins that are not bound
    app TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,                -- the last one; the versions of an app only grow
    is_lasting BOOLEAN NOT NULL,            -- FALSE: a job that publishes once; kept for a day
    published_at BIGINT NOT NULL,
    created BIGINT NOT NULL,
    duplicates BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    job UUID,                               -- chosen by whoever published it, to tell whether it was another job
    PRIMARY KEY (bound_login, app)
);
CREATE INDEX ledger_at_ix ON ledger (published_at) WHERE NOT is_lasting;

-- Readers that consume in numbered claims. A name has one reader at a time: a later reader gets a higher generation,
-- and the one before is refused.
CREATE TABLE claimant (
    name TEXT COLLATE "C" PRIMARY KEY,
    generation BIGINT NOT NULL,
    done_seq BIGINT NOT NULL DEFAULT 0,     -- the last claim that is complete
    last_seq BIGINT NOT NULL DEFAULT 0,     -- the last claim that was made
    opened_at BIGINT NOT NULL,
    -- The last batch that a reader began with, in which generation, and how many messages it had: see claim_begin.
    begun_generation BIGINT NOT NULL DEFAULT 0,
    begun_seq BIGINT NOT NULL DEFAULT 0,
    begun_n BIGINT NOT NULL DEFAULT 0,
    -- After a batch was not completed: how many messages a claim may have, and for how many messages that holds. Then
    -- it is ten times as many. NULL: no limit.
    most INT, most_for BIGINT
);
-- The messages of a claim, with the tokens of their leases.
CREATE TABLE claim (
    claimant TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    ord INT NOT NULL,
    id BIGINT NOT NULL,
    token UUID NOT NULL,
    PRIMARY KEY (claimant, seq, ord)
);
