-- Replace the tick by the next one.
CREATE OR REPLACE FUNCTION tick_write (n tick)
RETURNS tick LANGUAGE plpgsql AS $$
DECLARE
    v_old BIGINT := n.id;
BEGIN
    n.id := nextval(pg_get_serial_sequence('tick', 'id'));
    INSERT INTO tick OVERRIDING SYSTEM VALUE SELECT n.*;
    DELETE FROM tick WHERE id = v_old;
    RETURN n;
END $$;
