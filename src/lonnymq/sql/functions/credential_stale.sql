-- Bindings whose role was renamed, or dropped and made again, since they were written; with the role and its name as they are now.
CREATE OR REPLACE FUNCTION credential_stale ()
RETURNS TABLE (was REGROLE, role REGROLE, name TEXT) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.role, COALESCE(r.oid, n.oid)::REGROLE, COALESCE(r.rolname, n.rolname)::TEXT
    FROM credential c
    LEFT JOIN LATERAL (SELECT x.oid, x.rolname FROM pg_roles x WHERE x.oid = c.role OFFSET 0) r ON TRUE
    LEFT JOIN LATERAL (SELECT x.oid, x.rolname FROM pg_roles x WHERE x.rolname = c.name OFFSET 0) n ON r.oid IS NULL
    WHERE r.rolname <> c.name OR n.oid IS NOT NULL AND NOT EXISTS (SELECT FROM credential x WHERE x.role = n.oid);
END $$;
