-- For readers and writers that work in batches and are started again where they stopped, such as Spark's.

-- What was published, by the name that a job or stream gave itself and the number of its batch: a repeated batch publishes nothing.
CREATE TABLE ledger (
    published_by REGROLE NOT NULL DEFAULT quote_ident(session_user)::REGROLE, -- the login, whatever its name will be
    app TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,                -- the last one; versions of an app only grow
    is_lasting BOOLEAN NOT NULL,            -- FALSE: of a job that has no second batch; kept for a day
    published_at BIGINT NOT NULL,
    created BIGINT NOT NULL,
    duplicates BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    PRIMARY KEY (published_by, app)
);
CREATE INDEX ledger_at_ix ON ledger (published_at) WHERE NOT is_lasting;

-- Who consumes in numbered claims. One at a time: who opens it later has the higher generation, and the one before is refused.
CREATE TABLE claimant (
    name TEXT COLLATE "C" PRIMARY KEY,
    generation BIGINT NOT NULL,
    done_seq BIGINT NOT NULL DEFAULT 0,     -- claims up to this are finished,
    last_seq BIGINT NOT NULL DEFAULT 0,     -- and this is the last that was made
    opened_at BIGINT NOT NULL
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

-- Who follows the history, and what it has safely: nothing is dropped before every follower has it.
CREATE TABLE follower (
    name TEXT COLLATE "C" PRIMARY KEY,
    snapshot PG_SNAPSHOT NOT NULL,
    system_id BIGINT NOT NULL,              -- the cluster whose transactions the snapshot speaks of
    at BIGINT NOT NULL
);
ALTER TABLE upkeep ADD COLUMN trimmed_xid XID8 NOT NULL DEFAULT '0'; -- the history's rows up to this may be gone

-- Dead letters are followed as the history is.
ALTER TABLE dead ADD COLUMN xid XID8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX dead_xid_ix ON dead (xid);
-- One row per channel and transaction in which messages died. It stays when they are retried or discarded, so that history_mark can tell
-- this database's past from another one. Kept for 90 days.
CREATE TABLE dead_mark (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),
    channel TEXT COLLATE "C" NOT NULL,
    mark BIGINT NOT NULL,                   -- random
    at BIGINT NOT NULL,
    PRIMARY KEY (xid, channel)
);
CREATE INDEX dead_mark_channel_ix ON dead_mark (channel, xid); -- for a login that is bound to channels
ALTER TABLE upkeep ADD COLUMN unmarked_xid XID8 NOT NULL DEFAULT '0'; -- the rows of dead_mark up to this may be gone
