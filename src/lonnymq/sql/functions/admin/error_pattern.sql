-- What errors of the same cause have in common: the line that says what went wrong, with '...' in place of what is in
-- quotes and # in place of numbers, hexadecimal ids and UUIDs, up to 200 characters. The line is the first one, or in a
-- traceback of Python the first one after the frames. An exception group counts as the last exception in it. NULL if
-- there is no text.
CREATE OR REPLACE FUNCTION error_pattern (p_error TEXT)
RETURNS TEXT LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    -- The same pattern whatever the locale of the database.
    v_line TEXT COLLATE "C" := ltrim(p_error, E' \t\r\n');
BEGIN
    IF v_line LIKE '%+ Exception Group Traceback%' THEN
        v_line := regexp_replace(v_line, '^ +\| ', '', 'gn');
    END IF;
    -- In a chain of exceptions the last one counts. It has no heading of its own if it has no traceback.
    v_line := split_part(v_line, E' the following exception:\n\n', -1);
    v_line := split_part(v_line, E' another exception occurred:\n\n', -1);
    v_line := split_part(v_line, E'Traceback (most recent call last):\n', -1);
    v_line := left(substring(v_line FROM '(?n)^\S.*'), 1000);
    -- An apostrophe within a word does not begin a quotation. The end of the last quotation may be cut off.
    v_line := regexp_replace(v_line, '(?<![[:alnum:]_])([bru]?)"(?:[^"\\]|\\.)*(?:"|$)', '\1"..."', 'g');
    v_line := regexp_replace(v_line, '(?<![[:alnum:]_])([bru]?)''(?:[^''\\]|\\.)*(?:''|$)', '\1''...''', 'g');
    v_line := regexp_replace(v_line, '\m(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|0x[0-9a-f]+'
        || '|(?=[a-f]*[0-9])[0-9a-f]{8,})\M|[0-9]+(?:[.,:][0-9]+)*', '#', 'gi');
    RETURN rtrim(left(v_line, 200));
END $$;
