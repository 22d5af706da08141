-- The cursor of a row: text that the next call takes as p_after.
CREATE OR REPLACE FUNCTION cursor_write (p_channel TEXT, p_rank SMALLINT, p_at BIGINT, p_id BIGINT)
RETURNS TEXT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN jsonb_build_array(p_channel, p_rank, p_at, p_id)::TEXT;
END $$;
