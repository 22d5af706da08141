-- Who holds a dedupe key: the message while it lives, and its memory for a time after.
-- The primary key is what keeps two transactions from making two messages of one key.
CREATE TABLE dedupe (
    channel TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    message_id BIGINT NOT NULL,
    until_at BIGINT,                        -- NULL: the message lives
    PRIMARY KEY (channel, key)
);
CREATE INDEX dedupe_until_ix ON dedupe (until_at) WHERE until_at IS NOT NULL;
