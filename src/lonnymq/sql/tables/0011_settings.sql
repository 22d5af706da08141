-- More that a queue and a channel can be told.
ALTER TABLE queue
    ADD COLUMN lease_ms BIGINT NOT NULL DEFAULT 30000,          -- of a dequeue that names none
    ADD COLUMN max_concurrency INT,                             -- over all channels; NULL: no limit
    ADD COLUMN paused BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN dedupe_keep_ms BIGINT NOT NULL DEFAULT 600000,
    ADD COLUMN history BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN history_content BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN history_keep_ms BIGINT NOT NULL DEFAULT 2592000000, -- 0: for ever
    ADD COLUMN notify BOOLEAN NOT NULL DEFAULT TRUE,
    -- What nobody uses costs a producer nothing: a copy of these stands in the row that every create reads (sleep).
    ADD COLUMN has_sizes BOOLEAN NOT NULL DEFAULT FALSE,        -- some channel has, or had, a max_size
    ADD COLUMN has_bound BOOLEAN NOT NULL DEFAULT FALSE;        -- some credential is bound to channels
ALTER TABLE channel ADD COLUMN max_size INT;                    -- NULL: no limit
