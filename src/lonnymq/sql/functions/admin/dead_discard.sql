-- Delete dead messages. Locks them in the order of their ids. Returns one row (id, result) per element, in the order
-- given: 'discarded' or 'not_found'.
CREATE OR REPLACE FUNCTION dead_discard (p_ids BIGINT[])
RETURNS TABLE (id BIGINT, result TEXT) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_gone BIGINT[];
BEGIN
    PERFORM unbound_check('dead_discard');
    PERFORM array_lengths_check(cardinality(p_ids), NULL);
    WITH gone AS (DELETE FROM dead d WHERE d.id = ANY (p_ids) RETURNING d.id)
    SELECT array_agg(g.id) INTO v_gone FROM gone g;
    RETURN QUERY
    SELECT x.id, CASE WHEN x.nth = 1 AND x.id = ANY (v_gone) THEN 'discarded' ELSE 'not_found' END
    FROM (
        SELECT u.id, u.ord, ROW_NUMBER() OVER (PARTITION BY u.id ORDER BY u.ord) AS nth
        FROM unnest(p_ids) WITH ORDINALITY u (id, ord)) x
    ORDER BY x.ord;
END $$;
