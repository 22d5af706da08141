-- What consumers LISTEN to: one name a queue.
CREATE OR REPLACE FUNCTION notify_channel ()
RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN 'lonnymq_' || 'sleep'::REGCLASS::OID;
END $$;
