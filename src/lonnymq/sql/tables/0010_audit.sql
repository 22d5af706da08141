-- What people did to the queue, and who did it. A row is written before the action, and completed once after it.
CREATE TABLE audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    ended_at BIGINT,
    who TEXT NOT NULL,                      -- as the caller names them: a person, not a login of the database
    action TEXT NOT NULL,
    channel TEXT COLLATE "C",               -- NULL: the action was for more than one channel
    target TEXT,                            -- what it was done to, for example the id of a message
    details JSONB NOT NULL,
    outcome TEXT                            -- NULL: the action is not known to have ended
);
CREATE INDEX audit_channel_ix ON audit (channel, id);
CREATE INDEX audit_at_ix ON audit (at);     -- for audit_trim
