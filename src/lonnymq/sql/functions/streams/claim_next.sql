-- The claim after p_seq: one that was made before and is still held, with extended leases, or a new one of up to
-- p_limit messages, dequeued like any others; fewer after a batch was not completed (claim_begin). Messages that were
-- lost meanwhile are no longer part of it, and a claim that lost all of them is left out. Call dispatch first, in its
-- own transaction; with p_channels or p_pattern, then channels_dispatch. READ COMMITTED only.
-- With p_before a claim is made only while some channel may release a message that was due at that time, so that a
-- reader of the present messages finishes although others keep producing. With p_lanes, it takes from these lanes only;
-- with p_channels or p_pattern, from these channels only: see claim_channels. With p_max_bytes, a new claim ends before
-- its contents have more bytes than that, but has at least one message: see claim_split.
-- Returns the number and size of the claim; or p_seq and 0 if there is nothing to claim, with the time to ask again
-- (with p_before: NULL if no such message is left). Writes nothing if nothing is due and no claim is open.
CREATE OR REPLACE FUNCTION claim_next (
    p_claimant TEXT, p_generation BIGINT, p_seq BIGINT, p_limit INT, p_lease_ms BIGINT DEFAULT NULL,
    p_before BIGINT DEFAULT NULL, p_lanes TEXT[] DEFAULT NULL, p_channels TEXT[] DEFAULT NULL,
    p_pattern TEXT DEFAULT NULL, p_max_bytes BIGINT DEFAULT NULL)
RETURNS TABLE (seq BIGINT, messages BIGINT, again_at BIGINT)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    c claimant;
    v_is_due BOOLEAN;                       -- some channel may release a message
    v_is_open BOOLEAN;                      -- a claim is not complete
    v_limit INT;
    v_step INT;                             -- how many messages to dequeue at once
    v_bytes BIGINT := 0;                    -- of the messages of the claim
    v_got BIGINT;
BEGIN
    PERFORM isolation_check('claim_next');
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 THEN
        PERFORM refuse('LM005', format('p_limit is %s, which is out of range', COALESCE(p_limit::TEXT, 'NULL')),
            'Claim 1 to 100,000 messages at a time.');
    END IF;
    IF p_max_bytes < 1 THEN
        PERFORM refuse('LM005', format('p_max_bytes is %s, which is out of range', p_max_bytes),
            'Claim at least 1 byte at a time.');
    END IF;
    p_channels := claim_channels(p_channels, p_pattern, p_lanes);
    v_is_due := claim_is_due(p_before, p_lanes, p_channels);
    c := claim_check(p_claimant, p_generation, FALSE);
    v_is_open := EXISTS (SELECT FROM claim x WHERE x.claimant = p_claimant AND x.seq > c.done_seq);
    IF v_is_due OR v_is_open THEN
        c := claim_check(p_claimant, p_generation, TRUE);
    ELSE
        PERFORM lease_check(COALESCE(p_lease_ms, (SELECT q.lease_ms FROM queue q)));
    END IF;
    IF p_seq IS NULL OR p_seq NOT BETWEEN 0 AND c.last_seq THEN
        PERFORM refuse('LM015',
            format('claim %s of %s was never made', COALESCE(p_seq::TEXT, 'NULL'), quote_literal(p_claimant)),
            'The reader''s checkpoint is from another queue, or the database was restored since. '
            || 'Start the reader with a new checkpoint.');
    END IF;
    seq := GREATEST(p_seq, c.done_seq) + 1;
    messages := 0;
    IF v_is_open THEN
        PERFORM claim_extend(p_claimant, p_generation, p_lease_ms, TRUE);
        -- Claims in between have lost all their messages: their numbers are left out, so that the later ones are read.
        SELECT COALESCE(MIN(x.seq), claim_next.seq) INTO seq FROM claim x
        WHERE x.claimant = p_claimant AND x.seq >= claim_next.seq;
        SELECT COUNT(*) INTO messages FROM claim x WHERE x.claimant = p_claimant AND x.seq = claim_next.seq;
    END IF;
    IF messages > 0 THEN
        RETURN NEXT;
        RETURN;
    END IF;
    v_limit := LEAST(p_limit, c.most);
    v_step := CASE WHEN p_max_bytes IS NULL THEN 10000 ELSE 10 END;
    WHILE v_is_due LOOP
        WITH taken AS MATERIALIZED (
            SELECT d.id, d.token, d.again_at, octet_length(d.content) AS bytes, ROW_NUMBER() OVER () AS n
            FROM message_dequeue(LEAST(v_step, v_limit - messages)::INT, p_lease_ms, p_claimant, p_lanes,
                p_channels => p_channels) d),
        claimed AS (
            INSERT INTO claim (claimant, seq, ord, id, token)
            SELECT p_claimant, claim_next.seq, messages + t.n, t.id, t.token FROM taken t WHERE t.id IS NOT NULL
            RETURNING 1)
        SELECT (SELECT COUNT(*) FROM claimed), MAX(t.again_at) FILTER (WHERE t.id IS NULL),
            v_bytes + COALESCE(SUM(t.bytes), 0)
        INTO v_got, again_at, v_bytes FROM taken t;
        messages := messages + v_got;
        EXIT WHEN messages = v_limit OR claim_next.again_at IS NOT NULL OR v_got = 0 OR v_bytes >= p_max_bytes;
        IF p_max_bytes IS NOT NULL THEN     -- as many as fit, if the next ones are as large as these
            v_step := LEAST(10000, GREATEST(1, (p_max_bytes - v_bytes) / GREATEST(v_bytes / messages, 1)));
        END IF;
    END LOOP;
    IF messages > 0 THEN
        UPDATE claimant SET last_seq = GREATEST(c.last_seq, claim_next.seq) WHERE name = p_claimant;
        IF v_bytes > p_max_bytes THEN
            messages := claim_split(p_claimant, claim_next.seq, p_max_bytes);
            again_at := NULL;
        END IF;
    ELSE
        seq := GREATEST(p_seq, c.done_seq);
        again_at := CASE WHEN v_is_due OR p_before IS NOT NULL THEN claim_next.again_at
            ELSE dequeue_again_at(clock_ms()) END;
    END IF;
    RETURN NEXT;
END $$;
