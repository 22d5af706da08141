-- Login roles that are bound to channels: they may produce to and observe these, and do nothing else.
CREATE TABLE credential (
    role TEXT PRIMARY KEY,
    channels TEXT[] NOT NULL
);
