-- Policies have changed, and what their channels had in ready was taken back, but for what open dequeues hold. If
-- these give it back, it must not be served by the old policy: such channels stay hidden from dequeues, if they are
-- paused or have limits now, and are looked at again in a second.
CREATE OR REPLACE FUNCTION policy_hide (p_changed TEXT[], p_now BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_channels TEXT[] := ARRAY(
        SELECT DISTINCT r.channel FROM unnest(p_changed) c (name)
        CROSS JOIN LATERAL (SELECT r.channel FROM ready r WHERE r.channel = c.name OFFSET 0) r
        WHERE (SELECT q.max_concurrency IS NOT NULL FROM queue q) OR EXISTS (
            SELECT FROM channel k
            WHERE k.name = c.name AND (k.paused OR k.max_concurrency IS NOT NULL OR k.release_interval_ms > 0)));
BEGIN
    INSERT INTO policy_change (channel, is_seen) SELECT c, TRUE FROM unnest(v_channels) c;
    INSERT INTO alarm (at, channel) SELECT p_now + 1000, c FROM unnest(v_channels) c;
END $$;
