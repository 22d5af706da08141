-- Finished messages, if the queue keeps a history. A reader that remembers a snapshot reads each row once: the rows
-- whose xid that snapshot did not see and the current one does.
CREATE OR REPLACE VIEW history WITH (security_barrier) AS
SELECT f.xid, f.id, f.channel, f.outcome, f.created_at, f.dequeue_at, f.first_dequeued_at, f.dequeued_at, f.finished_at,
    f.attempts, f.consumer, f.error, f.dedupe_key, f.headers, f.content_bytes, f.content,
    f.lane, f.priority::INT AS priority, f.cost, f.past_runs
FROM (
    SELECT * FROM finished WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
    UNION ALL
    SELECT * FROM finished_visible() WHERE NOT login_is_free()) f;
