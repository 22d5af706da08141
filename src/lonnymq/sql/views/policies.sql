-- The policies, one row per change with the whole policy after it, for readers that follow them (see history). scope:
-- queue; default, which is what channels inherit; or channel. The newest row of a channel is its policy.
CREATE OR REPLACE VIEW policies WITH (security_barrier) AS
SELECT p.xid, p.id, p.at, p.scope, NULLIF(p.channel, '') AS channel, p.max_concurrency, p.release_interval_us, p.burst,
    p.paused, p.max_size, p.weight, p.is_deleted
FROM (
    SELECT * FROM policy_log WHERE login_is_free() AND (SELECT bound_channels()) IS NULL
    UNION ALL
    SELECT * FROM policy_visible() WHERE NOT login_is_free()) p;
