-- Which percentage of a table is about 64 pages.
CREATE OR REPLACE FUNCTION sample_percent (p_table REGCLASS)
RETURNS REAL LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN LEAST(100, 6400.0 * current_setting('block_size')::INT / GREATEST(pg_relation_size(p_table), 1));
END $$;
