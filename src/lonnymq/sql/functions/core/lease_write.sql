-- Part of a dequeue: write the lease of the taken messages, in rows of up to 100, and its notice. Returns whether one
-- of the messages is under a limit.
CREATE OR REPLACE FUNCTION lease_write (
    p_taken ready[], p_token UUID, p_end_at BIGINT, p_now BIGINT, p_consumer TEXT, p_wanted INT)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    v_one ready := p_taken[1];
    v_stubs stub[];
    v_is_limited BOOLEAN;
BEGIN
    IF cardinality(p_taken) = 1 THEN
        INSERT INTO lease (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs)
        VALUES (p_token, v_one.id, p_end_at, p_now, v_one.is_limited, p_consumer, ARRAY[ROW(v_one.id,
            v_one.generation)::stub]);
        INSERT INTO notice (lease_end_at, at, n, wanted, taken)
        VALUES (p_end_at, p_now, -1, p_wanted, ARRAY[ROW(v_one.channel, 1, p_now)::share]);
        RETURN v_one.is_limited;
    END IF;
    v_stubs := ARRAY(SELECT ROW(r.id, r.generation)::stub FROM unnest(p_taken) r ORDER BY r.id);
    v_is_limited := EXISTS (SELECT FROM unnest(p_taken) r WHERE r.is_limited);
    INSERT INTO lease (token, last_id, end_at, dequeued_at, is_limited, consumer, stubs)
    SELECT p_token, (part[cardinality(part)]).id, p_end_at, p_now, v_is_limited, p_consumer, part
    FROM generate_series(1, cardinality(v_stubs), 100) i CROSS JOIN LATERAL (SELECT v_stubs[i:i + 99] AS part) x;
    INSERT INTO notice (lease_end_at, at, n, wanted, taken)
    SELECT p_end_at, p_now, -cardinality(p_taken), p_wanted, array_agg(ROW(x.channel, x.n, p_now)::share)
    FROM (SELECT r.channel, COUNT(*) AS n FROM unnest(p_taken) r GROUP BY r.channel) x;
    RETURN v_is_limited;
END $$;
