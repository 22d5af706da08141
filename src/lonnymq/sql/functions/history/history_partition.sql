-- The name of the history's partition for the day (UTC) of a time.
CREATE OR REPLACE FUNCTION history_partition (p_at BIGINT)
RETURNS TEXT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN 'finished_' || to_char(DATE '1970-01-01' + (p_at / 86400000)::INT, 'YYYYMMDD');
END $$;
