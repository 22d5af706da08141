-- The channels and their statistics, page by page, as channel_stats returns them with a cap of 1,000. p_order:
--   name      by name; p_after is the last name of the page before, and p_prefix is how the names begin, if given
--   next      channels that can be served, the next one first; one page
--   waiting   the largest backlogs first: see channel_largest; one page
-- A login that is bound to channels sees only these, by name. The cost depends on p_limit, not on how many channels or
-- messages there are.
CREATE OR REPLACE FUNCTION channel_list (
    p_order TEXT DEFAULT 'name', p_after TEXT DEFAULT NULL, p_limit INT DEFAULT 50, p_prefix TEXT DEFAULT NULL)
RETURNS SETOF channel_statistics LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    v_bound TEXT[] := bound_channels();
    v_after TEXT := COALESCE(p_after, '');
    v_prefix TEXT := COALESCE(p_prefix, '');
    v_names TEXT[];
BEGIN
    PERFORM limit_check(p_limit, 1000);
    IF p_order IS NULL OR p_order NOT IN ('name', 'next', 'waiting') THEN
        PERFORM refuse('LM013', format('there is no order %s', COALESCE(quote_literal(p_order), 'NULL')),
            'Order by name, next or waiting.');
    ELSIF p_after IS NOT NULL AND p_order <> 'name' THEN
        PERFORM refuse('LM013', format('order %s has one page', quote_literal(p_order)),
            'Raise p_limit, or order by name to see all, page by page.');
    ELSIF p_prefix IS NOT NULL AND p_order <> 'name' THEN
        PERFORM refuse('LM013', format('order %s does not take a prefix', quote_literal(p_order)), 'Order by name.');
    END IF;
    IF v_bound IS NOT NULL THEN
        v_names := ARRAY(
            SELECT DISTINCT b COLLATE "C" FROM unnest(v_bound) b
            WHERE b COLLATE "C" > v_after AND starts_with(b, v_prefix)
            ORDER BY 1 LIMIT p_limit);
    ELSIF p_order = 'name' THEN
        v_names := ARRAY(
            SELECT DISTINCT x.name COLLATE "C"
            FROM (
                SELECT n FROM unnest(channel_names(v_after, p_limit, v_prefix)) n
                UNION ALL
                SELECT m.channel FROM message_undispatched(1000) m
                WHERE m.channel > v_after AND starts_with(m.channel, v_prefix)) x (name)
            ORDER BY 1 LIMIT p_limit);
    ELSIF p_order = 'next' THEN
        v_names := channel_next(p_limit);
    ELSE
        v_names := channel_largest(p_limit);
    END IF;
    RETURN QUERY SELECT * FROM channel_stats_of(v_names, 1000);
END $$;
