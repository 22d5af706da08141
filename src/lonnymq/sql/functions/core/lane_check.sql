-- Refuse a lane's name that is too long or empty, and a new lane if the queue has as many as it may have.
CREATE OR REPLACE FUNCTION lane_check (p_lane TEXT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    t tick;
BEGIN
    IF p_lane IS NULL THEN
        RETURN;
    ELSIF octet_length(p_lane) NOT BETWEEN 1 AND 255 THEN
        PERFORM refuse('LM010', format('the name of the lane is %s bytes long%s', octet_length(p_lane), p_place),
            'Name the lane with 1 to 255 bytes of text.');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF cardinality(t.lanes) >= 500 AND NOT EXISTS (SELECT FROM unnest(t.lanes) l WHERE l.name = p_lane) THEN
        PERFORM refuse('LM010', format('lane %s would be one too many%s', quote_literal(p_lane), p_place),
            'A queue has up to 500 lanes: they are for kinds of work. Tenants have channels.');
    END IF;
END $$;
