-- Revoke the rights on a table from everybody but its owner: the owner's default privileges are granted on every new
-- table, and everybody may use its row type, which then keeps the table from being dropped.
CREATE OR REPLACE FUNCTION table_revoke_rights (p_name TEXT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    v_grantee TEXT;
BEGIN
    FOR v_grantee IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = quote_ident(p_name)::REGCLASS AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE ALL ON TABLE %I FROM %s', p_name, v_grantee);
    END LOOP;
    EXECUTE format('REVOKE ALL ON TYPE %I FROM PUBLIC', p_name);
END $$;
