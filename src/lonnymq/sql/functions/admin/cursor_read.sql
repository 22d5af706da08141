-- The position after a cursor, which is the last row of the page before. Without a cursor, the position before the
-- first row. Refuses a text that is not a cursor.
CREATE OR REPLACE FUNCTION cursor_read (p_cursor TEXT,
    OUT channel TEXT, OUT rank SMALLINT, OUT at BIGINT, OUT id BIGINT)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parts JSONB;
BEGIN
    IF p_cursor IS NULL THEN
        channel := '';
        rank := -32768;
        at := -9223372036854775808;
        id := -9223372036854775808;
        RETURN;
    END IF;
    BEGIN
        v_parts := p_cursor::JSONB;
        channel := v_parts ->> 0;
        rank := (v_parts ->> 1)::SMALLINT;
        at := (v_parts ->> 2)::BIGINT;
        id := (v_parts ->> 3)::BIGINT + 1;
    EXCEPTION WHEN data_exception THEN
        channel := NULL;
    END;
    IF channel IS NULL OR rank IS NULL OR at IS NULL OR id IS NULL THEN
        PERFORM refuse('LM013', format('p_after is not a cursor: %s', quote_literal(left(p_cursor, 100))),
            'Give the cursor of the last row of the page before, or NULL for the first page.');
    END IF;
END $$;
