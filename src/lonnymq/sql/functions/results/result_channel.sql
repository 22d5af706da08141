-- The name to LISTEN on for the ends of messages whose results are kept. Each queue has its own.
CREATE OR REPLACE FUNCTION result_channel ()
RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN 'lonnymq_result_' || 'result'::REGCLASS::OID;
END $$;
