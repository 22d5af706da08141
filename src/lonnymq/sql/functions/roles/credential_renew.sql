-- Update bindings whose role was renamed, dropped, or dropped and created again. So a role also stays bound if it is
-- renamed, later dropped and then created again. The caller has locked the queue's row.
CREATE OR REPLACE FUNCTION credential_renew ()
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credential c SET role = s.role, name = s.name FROM credential_stale() s
        WHERE (c.role, c.name) = (s.old_role, s.old_name);
END $$;
