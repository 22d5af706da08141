-- Refuse a lease that is not positive, or longer than the queue allows.
CREATE OR REPLACE FUNCTION lease_check (p_lease_ms BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_max BIGINT;
BEGIN
    SELECT lease_max_ms INTO v_max FROM queue;
    IF p_lease_ms IS NULL OR p_lease_ms <= 0 OR p_lease_ms > v_max THEN
        PERFORM refuse('LM004', format('p_lease_ms is %s, which is out of range', COALESCE(p_lease_ms::TEXT, 'NULL')),
            format('Give 1 to %s ms; queue_set(p_lease_max_ms => ...) allows longer leases.', v_max));
    END IF;
END $$;
