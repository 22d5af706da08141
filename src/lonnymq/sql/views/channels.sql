-- Every channel that has a policy, messages that wait or are dead, or statistics, with its state. A login that is bound
-- to channels sees only these. For many channels, channel_list is cheaper.
CREATE OR REPLACE VIEW channels WITH (security_barrier) AS
SELECT s.* FROM channel_visible() n (name) CROSS JOIN LATERAL channel_stats(n.name) s;
