-- Raise an error of LonnyMQ. docs/sql.md lists the codes.
CREATE OR REPLACE FUNCTION refuse (p_sqlstate TEXT, p_message TEXT, p_hint TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = p_sqlstate, MESSAGE = p_message, HINT = p_hint;
END $$;
