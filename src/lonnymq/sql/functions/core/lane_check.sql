-- Refuse a text that cannot name a lane, and more lanes than a dequeue can look through. Lanes stay and are shared by
-- all channels, so a login that is bound to channels cannot add one: it uses lanes that are there or that a worker
-- serves.
CREATE OR REPLACE FUNCTION lane_check (p_lane TEXT, p_place TEXT DEFAULT '')
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    t tick;
BEGIN
    IF p_lane IS NULL THEN
        RETURN;
    ELSIF NOT name_is_valid(p_lane) THEN
        PERFORM refuse('LM010', format('the name of the lane is %s bytes long%s', octet_length(p_lane), p_place),
            'Give a name of 1 to 255 bytes.');
    END IF;
    SELECT * INTO t FROM tick ORDER BY id DESC LIMIT 1;
    IF EXISTS (SELECT FROM unnest(t.lanes) l WHERE l.name = p_lane) THEN
        RETURN;
    ELSIF bound_channels() IS NOT NULL AND NOT EXISTS (SELECT FROM worker w WHERE p_lane = ANY (w.lanes)) THEN
        PERFORM bound_login_refuse(format('add lane %s%s', quote_literal(p_lane), p_place),
            'It is bound to channels: use a lane that the queue has, or that a worker serves.');
    ELSIF cardinality(t.lanes) >= 500 THEN
        PERFORM refuse('LM010',
            format('the queue has 500 lanes, and %s would be one more%s', quote_literal(p_lane), p_place),
            'Use an existing lane. Lanes are for classes of work; use channels for tenants.');
    END IF;
END $$;
