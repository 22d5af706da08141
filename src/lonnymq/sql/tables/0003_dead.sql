-- Messages whose attempts are used up, parked out of the way of the living.
CREATE TABLE dead (
    id BIGINT PRIMARY KEY,
    dequeue_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    dead_at BIGINT NOT NULL,
    attempts INT NOT NULL,
    max_attempts INT,
    channel TEXT COLLATE "C" NOT NULL,
    consumer TEXT,
    error TEXT,
    headers JSONB,
    state BYTEA,
    content BYTEA NOT NULL
);
