-- Messages have finished: say which slots came free and which sizes fell, by appending, and let their dedupe keys run out.
CREATE OR REPLACE FUNCTION message_left (p_channels TEXT[], p_slots BOOLEAN[], p_counted BOOLEAN[], p_keys TEXT[], p_ids BIGINT[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO wake (channel) SELECT DISTINCT u.channel FROM unnest(p_channels, p_slots) u (channel, slot) WHERE u.slot;
    IF FOUND THEN
        PERFORM wake_notify();
    END IF;
    INSERT INTO departure (channel) SELECT u.channel FROM unnest(p_channels, p_counted) u (channel, is_counted) WHERE u.is_counted;
    IF array_remove(p_keys, NULL) <> '{}' THEN
        PERFORM dedupe_release(p_channels, p_keys, p_ids, (SELECT q.dedupe_keep_ms FROM queue q));
    END IF;
END $$;
