-- Decide, in the order given, which messages are admitted: 'created', 'duplicate' (holders has the id of the message
-- that holds the key) or 'full'. Adds the admitted messages to the sizes of their channels.
-- Goes through the channels in the order of their names. For each it first locks the size, if the channel has a
-- max_size, and then takes the dedupe keys in their order. If two transactions want the same key, the second waits for
-- the first. A key that is already held is read, or locked in a way that delays nobody who finishes the holder (see
-- dedupe_holds).
CREATE OR REPLACE FUNCTION message_admit (
    p_channels TEXT[], p_keys TEXT[], p_ids BIGINT[], p_unique_fors_ms BIGINT[], OUT results TEXT[],
    OUT holders BIGINT[], OUT are_counted BOOLEAN[])
LANGUAGE plpgsql AS $$
DECLARE
    v_count INT := cardinality(p_channels);
    v_first INT[];                          -- the first element with the same channel and key
    v_channel RECORD;
    v_room BIGINT;                          -- NULL: no limit
    v_taken INT;
    i INT;
BEGIN
    results := array_fill('created'::TEXT, ARRAY[v_count]);
    holders := array_fill(NULL::BIGINT, ARRAY[v_count]);
    are_counted := array_fill(FALSE, ARRAY[v_count]);
    SELECT array_agg(x.first ORDER BY x.ord) INTO v_first
    FROM (
        SELECT u.ord, CASE WHEN u.key IS NOT NULL THEN MIN(u.ord) OVER (PARTITION BY u.channel, u.key) END AS first
        FROM unnest(p_channels, p_keys) WITH ORDINALITY u (channel, key, ord)) x;
    FOR v_channel IN
        SELECT u.channel COLLATE "C" AS name, array_agg(u.ord::INT ORDER BY u.ord) AS ords,
            array_agg(u.ord::INT ORDER BY u.key COLLATE "C", u.ord) FILTER (WHERE u.key IS NOT NULL) AS keyed
        FROM unnest(p_channels, p_keys) WITH ORDINALITY u (channel, key, ord) GROUP BY 1 ORDER BY 1
    LOOP
        v_taken := 0;
        -- Read now, not at the start: a limit that was set while this call waited for another channel applies.
        v_room := CASE WHEN channel_max_size(v_channel.name) IS NOT NULL
            THEN capacity_room(v_channel.name, cardinality(v_channel.ords)) END;
        IF v_room IS NOT NULL THEN
            FOREACH i IN ARRAY v_channel.ords LOOP
                -- The size is locked, so reading the holder of a key is enough: a duplicate takes up no room.
                IF p_keys[i] IS NOT NULL THEN
                    CONTINUE WHEN v_first[i] < i AND results[v_first[i]] <> 'full'
                        AND holders[v_first[i]] IS DISTINCT FROM p_ids[i];
                    holders[i] := dedupe_holder(v_channel.name, p_keys[i], p_ids[i], clock_ms());
                    CONTINUE WHEN holders[i] IS NOT NULL;
                END IF;
                IF v_taken < v_room THEN
                    v_taken := v_taken + 1;
                    are_counted[i] := TRUE;
                ELSE
                    results[i] := 'full';
                END IF;
            END LOOP;
        END IF;
        FOREACH i IN ARRAY COALESCE(v_channel.keyed, '{}') LOOP
            CONTINUE WHEN results[i] = 'full';
            -- The first may be a duplicate of this message, which is dead, is retried and still holds its key.
            IF v_first[i] < i AND results[v_first[i]] <> 'full' AND holders[v_first[i]] IS DISTINCT FROM p_ids[i] THEN
                holders[i] := COALESCE(holders[v_first[i]], p_ids[v_first[i]]);
            ELSIF holders[i] IS NULL THEN
                holders[i] := dedupe_take(v_channel.name, p_keys[i], p_ids[i], p_unique_fors_ms[i]);
            END IF;
            IF holders[i] IS NOT NULL THEN
                results[i] := 'duplicate';
                v_taken := v_taken - CASE WHEN are_counted[i] THEN 1 ELSE 0 END;
                are_counted[i] := FALSE;
            END IF;
        END LOOP;
        IF v_taken > 0 THEN
            UPDATE capacity SET turn = nextval('turn'), size = size + v_taken
            WHERE channel = v_channel.name AND turn = (SELECT MAX(c.turn) FROM capacity c
                WHERE c.channel = v_channel.name);
        END IF;
    END LOOP;
END $$;
