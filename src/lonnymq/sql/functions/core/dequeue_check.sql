-- Refuse a dequeue whose arguments are out of range, and a login that may not dequeue.
CREATE OR REPLACE FUNCTION dequeue_check (p_limit INT, p_lease_ms BIGINT, p_consumer TEXT, p_lanes TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM isolation_check('message_dequeue');
    PERFORM lease_check(p_lease_ms);
    IF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 10000 THEN
        PERFORM refuse('LM005', format('p_limit is %s, which is out of range', COALESCE(p_limit::TEXT, 'NULL')),
            'Ask for 1 to 10,000 messages.');
    ELSIF octet_length(p_consumer) > 255 THEN
        PERFORM refuse('LM010', format('the consumer name is %s bytes long', octet_length(p_consumer)),
            'Give a name of at most 255 bytes.');
    ELSIF p_lanes = '{}' OR '' = ANY (p_lanes) OR num_nulls(VARIADIC p_lanes) > 0 THEN
        PERFORM refuse('LM010', 'p_lanes is empty, or has an element that is NULL or empty',
            'Name the lanes to dequeue from, or give NULL for all lanes.');
    END IF;
    PERFORM unbound_check('message_dequeue');
END $$;
