-- Replace the tick by the next one.
CREATE OR REPLACE FUNCTION tick_write (n tick)
RETURNS tick LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tick WHERE id = n.id;
    n.id := nextval(pg_get_serial_sequence('tick', 'id'));
    INSERT INTO tick OVERRIDING SYSTEM VALUE SELECT n.*;
    RETURN n;
END $$;
