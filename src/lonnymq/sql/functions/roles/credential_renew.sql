-- Write down the present name of roles that were renamed since they were bound, that a role was dropped, and the new
-- role where it was made again. So a role also stays bound that is renamed, later dropped and then made again. The
-- caller holds the queue's row.
CREATE OR REPLACE FUNCTION credential_renew ()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credential c SET role = s.role, name = s.name FROM credential_stale() s
        WHERE (c.role, c.name) = (s.old_role, s.old_name);
END $$;
