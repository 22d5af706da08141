-- The channels that the caller's login role is bound to, itself or as a member of bound roles; NULL: it is not bound.
-- session_user is the login role, whatever SET ROLE or a SECURITY DEFINER function says. Memberships count, directly or
-- through other roles, if rights are inherited or SET ROLE is allowed. They do not count for a login that has the
-- rights of the queue's owner, superusers included: such a login is bound only by its own binding. If bindings were
-- made and none is left, a restore has lost them: then everybody but the owner is bound to no channel at all.
CREATE OR REPLACE FUNCTION bound_channels ()
RETURNS TEXT[] LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path FROM CURRENT SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET jit TO off AS $$
DECLARE
    v_login OID;
    v_kind TEXT;                            -- the kind of membership, in the words of pg_has_role
    v_is_owner BOOLEAN;
    v_roles OID[];                          -- the roles whose bindings apply
    v_bindings BIGINT;
    v_channels TEXT[];
BEGIN
    IF NOT (SELECT q.has_bound FROM queue q) THEN
        RETURN NULL;
    END IF;
    v_login := quote_ident(session_user)::REGROLE;
    v_kind := CASE WHEN current_setting('server_version_num')::INT < 160000 THEN 'MEMBER' ELSE 'USAGE, SET' END;
    v_is_owner := pg_has_role(v_login, current_user, v_kind);
    IF v_is_owner THEN
        v_roles := ARRAY[v_login];
    ELSE
        WITH RECURSIVE mine (role) AS (
            SELECT v_login
            UNION
            SELECT m.roleid FROM mine JOIN pg_auth_members m ON m.member = mine.role
            -- before PostgreSQL 16 a membership has no options and allows both
            CROSS JOIN LATERAL (SELECT to_jsonb(m) AS m) o
            WHERE COALESCE((o.m ->> 'inherit_option')::BOOLEAN OR (o.m ->> 'set_option')::BOOLEAN, TRUE))
        SELECT array_agg(mine.role) INTO v_roles FROM mine;
    END IF;
    SELECT COUNT(*), array_agg(DISTINCT u.channel) FILTER (WHERE u.channel IS NOT NULL) INTO v_bindings, v_channels
    FROM unnest(v_roles) mine (role)
    CROSS JOIN LATERAL (
        SELECT c.channels FROM credential c WHERE c.role = mine.role
        UNION ALL
        SELECT c.channels FROM credential c
        WHERE c.name = pg_get_userbyid(mine.role) AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.role)) c
    LEFT JOIN LATERAL unnest(c.channels) u (channel) ON TRUE;
    IF v_bindings > 0 OR NOT v_is_owner AND NOT EXISTS (SELECT FROM credential) THEN
        RETURN COALESCE(v_channels, '{}');
    END IF;
    RETURN NULL;
END $$;
