-- Every channel that has a policy, a place in the line, dead messages or a past, and how it stands. For many channels, channel_list is cheaper.
CREATE OR REPLACE VIEW channels WITH (security_barrier) AS
SELECT s.*
FROM (
    SELECT name FROM channel UNION SELECT channel FROM ring UNION SELECT channel FROM dead UNION SELECT channel FROM tally) n (name)
CROSS JOIN LATERAL channel_stats(n.name) s
WHERE (SELECT bound_channels()) IS NULL OR n.name = ANY ((SELECT bound_channels())::TEXT[]);
