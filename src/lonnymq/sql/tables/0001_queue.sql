-- The queue's own settings: one row.
CREATE TABLE queue (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    content_max_bytes INT NOT NULL DEFAULT 1048576,
    lease_max_ms BIGINT NOT NULL DEFAULT 86400000,
    max_attempts INT NOT NULL DEFAULT 5
);
INSERT INTO queue DEFAULT VALUES;
