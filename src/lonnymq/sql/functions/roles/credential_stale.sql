-- Bindings whose role was renamed, dropped, or dropped and created again since they were written, with the role and its
-- name as they are now. A dropped role is written as 0: a dump would contain its bare number, which may be another role
-- where it is restored.
CREATE OR REPLACE FUNCTION credential_stale ()
RETURNS TABLE (old_role REGROLE, old_name TEXT, role REGROLE, name TEXT) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.role, c.name, COALESCE(r.oid, n.oid, 0)::REGROLE, COALESCE(r.rolname, c.name)::TEXT
    FROM credential c
    LEFT JOIN LATERAL (SELECT x.oid, x.rolname FROM pg_roles x WHERE x.oid = c.role OFFSET 0) r ON TRUE
    LEFT JOIN LATERAL (
        SELECT x.oid FROM pg_roles x
        WHERE x.rolname = c.name AND NOT EXISTS (SELECT FROM credential y
            WHERE y.role = x.oid) OFFSET 0) n ON r.oid IS NULL
    WHERE (COALESCE(r.oid, n.oid, 0), COALESCE(r.rolname, c.name)::TEXT) <> (c.role::OID, c.name);
END $$;
