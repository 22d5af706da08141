-- Where bulk loads are staged, by COPY and by many sessions at once, until staging_publish makes messages of a batch.
-- Producers may insert here and nothing else; staged_by is not theirs to give.
CREATE TABLE staging (
    batch UUID NOT NULL,
    ord BIGINT NOT NULL,                    -- orders the batch; need not be dense
    channel TEXT COLLATE "C",
    content BYTEA,
    dequeue_at BIGINT,
    headers JSONB,
    max_attempts INT,
    dedupe_key TEXT COLLATE "C",
    staged_by REGROLE NOT NULL DEFAULT quote_ident(session_user)::REGROLE, -- the login, whatever its name will be
    staged_at BIGINT NOT NULL DEFAULT EXTRACT(EPOCH FROM now()) * 1000
);
CREATE INDEX staging_ix ON staging (staged_by, batch, ord); -- nobody reads the rows of others, not even to skip them
CREATE INDEX staging_at_ix ON staging (staged_at);
-- Producers choose batch and ord, so there is no primary key. Without an identity, a publication FOR ALL TABLES would refuse the
-- deletes; FULL needs no index, and costs WAL only where wal_level is logical.
ALTER TABLE staging REPLICA IDENTITY FULL;
