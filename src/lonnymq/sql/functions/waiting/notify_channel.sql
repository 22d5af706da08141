-- The name that consumers LISTEN on. Each queue has its own.
CREATE OR REPLACE FUNCTION notify_channel ()
RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN 'lonnymq_' || 'sleep'::REGCLASS::OID;
END $$;
