-- Write down the present name of roles that were renamed since they were bound, and the new role where one was dropped and made again. So a
-- role also stays bound that is first renamed and then made again. The caller holds the queue's row.
CREATE OR REPLACE FUNCTION credential_renew ()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credential c SET role = s.role, name = s.name FROM credential_stale() s WHERE c.role = s.was;
END $$;
