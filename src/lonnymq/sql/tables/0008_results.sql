-- Results that are kept, and the progress of running messages.

-- How a message ended, for whoever wants to know: one row per finished message whose result is kept, until until_at.
CREATE TABLE result (
    id BIGINT PRIMARY KEY,                  -- of the message
    until_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    attempts INT NOT NULL,                  -- started ones, the last one included
    outcome TEXT NOT NULL,                  -- completed, dead, cancelled
    channel TEXT COLLATE "C" NOT NULL,
    error TEXT,                             -- of a dead message, or the reason of a discarded one
    content_type TEXT,
    content BYTEA                           -- what the completing call gave; NULL: nothing
);
CREATE INDEX result_until_ix ON result (until_at);
CREATE INDEX result_channel_ix ON result (channel, id); -- for a login that is bound to channels

-- What makes the keys by which a finished message is announced unpredictable: see result_key.
CREATE TABLE result_secret (only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row), secret TEXT NOT NULL);
INSERT INTO result_secret (secret) VALUES (gen_random_uuid()::TEXT || gen_random_uuid());

-- What the running attempt of a message has last reported; void once the message has another generation, or is gone.
-- Usually one row per message. A report replaces it by one with a higher turn, and readers take the highest.
CREATE TABLE progress (
    id BIGINT NOT NULL,                     -- of the message
    turn BIGINT NOT NULL,
    generation INT NOT NULL,
    at BIGINT NOT NULL,
    fraction REAL NOT NULL,                 -- 0 to 1
    note TEXT,
    PRIMARY KEY (id, turn)
);

-- Results that a program saves under a name of its own, such as the id that a framework gives a task, until until_at.
CREATE TABLE saved_result (
    name TEXT COLLATE "C" PRIMARY KEY,
    until_at BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    content_type TEXT,
    content BYTEA NOT NULL
);
CREATE INDEX saved_result_until_ix ON saved_result (until_at);
