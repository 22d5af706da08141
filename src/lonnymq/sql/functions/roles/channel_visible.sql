-- The names of the channels that the caller may see: the ones that its login role is bound to, or all of them if it is
-- not bound.
CREATE OR REPLACE FUNCTION channel_visible ()
RETURNS SETOF TEXT LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_names TEXT[] := bound_channels();
BEGIN
    IF v_names IS NOT NULL THEN
        RETURN QUERY SELECT c FROM unnest(v_names) c;
        RETURN;
    END IF;
    v_names := channel_names('', 10000);
    WHILE v_names <> '{}' LOOP
        RETURN QUERY SELECT c FROM unnest(v_names) c;
        v_names := channel_names(v_names[cardinality(v_names)], 10000);
    END LOOP;
END $$;
