-- Part of channel_set: refuse names in p_inherit that are not limits, and limits that are also given.
CREATE OR REPLACE FUNCTION inherit_check (
    p_inherit TEXT[], p_max_concurrency INT, p_release_interval_us BIGINT, p_burst INT, p_max_size INT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    c_names CONSTANT TEXT[] := '{max_concurrency, release_interval_us, burst, max_size}';
    v_given TEXT[] := array_remove(ARRAY[
        CASE WHEN p_max_concurrency IS NOT NULL THEN 'max_concurrency' END,
        CASE WHEN p_release_interval_us IS NOT NULL THEN 'release_interval_us' END,
        CASE WHEN p_burst IS NOT NULL THEN 'burst' END,
        CASE WHEN p_max_size IS NOT NULL THEN 'max_size' END], NULL);
    v_name TEXT;
BEGIN
    FOREACH v_name IN ARRAY p_inherit LOOP
        IF v_name IS NULL OR v_name <> ALL (c_names) THEN
            PERFORM refuse('LM007', format('a channel cannot inherit %s', COALESCE(quote_literal(v_name), 'NULL')),
                format('It can inherit %s.', array_to_string(c_names, ', ')));
        ELSIF v_name = ANY (v_given) THEN
            PERFORM refuse('LM007', format('%s is both given and inherited', v_name),
                format('Give p_%s, or name it in p_inherit.', v_name));
        END IF;
    END LOOP;
END $$;
