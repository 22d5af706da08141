-- Where the page before ended; without one, before everything. Refuses what no list has given out.
CREATE OR REPLACE FUNCTION cursor_read (p_cursor TEXT, OUT channel TEXT, OUT at BIGINT, OUT id BIGINT)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parts JSONB;
BEGIN
    IF p_cursor IS NULL THEN
        channel := '';
        at := -9223372036854775808;
        id := -9223372036854775808;
        RETURN;
    END IF;
    BEGIN
        v_parts := p_cursor::JSONB;
        channel := v_parts ->> 0;
        at := (v_parts ->> 1)::BIGINT;
        id := (v_parts ->> 2)::BIGINT;
    EXCEPTION WHEN data_exception THEN
        channel := NULL;
    END;
    IF channel IS NULL OR at IS NULL OR id IS NULL THEN
        PERFORM refuse('LM013', 'this is not the cursor of a list', 'Give the cursor of the last row of the page before, or NULL for the first page.');
    END IF;
END $$;
