-- For writers and readers that work in batches and are started again where they stopped, such as Spark's.

-- Where bulk loads are staged, by COPY and by many sessions at once, until staging_publish makes messages of a batch.
-- Producers may insert here and nothing else; staged_by is not theirs to give.
CREATE TABLE staging (
    batch UUID NOT NULL,
    ord BIGINT NOT NULL,                    -- orders the batch; need not be dense
    LIKE new_message,                       -- without delay_ms: nobody may write it
    staged_by REGROLE NOT NULL DEFAULT quote_ident(session_user)::REGROLE, -- the login, whatever its name will be
    staged_at BIGINT NOT NULL DEFAULT EXTRACT(EPOCH FROM now()) * 1000
);
CREATE INDEX staging_ix ON staging (staged_by, batch, ord); -- nobody reads the rows of others, not even to skip them
CREATE INDEX staging_at_ix ON staging (staged_at);
-- Producers choose batch and ord, so there is no primary key. Without an identity, a publication FOR ALL TABLES would
-- refuse the deletes; FULL needs no index, and costs WAL only where wal_level is logical.
ALTER TABLE staging REPLICA IDENTITY FULL;

-- What was published, by the name that a job or stream gave itself and the number of its batch: a repeated batch
-- publishes nothing.
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

-- Who consumes in numbered claims. One at a time: who opens it later has the higher generation, and the one before is
-- refused.
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
