-- staging_publish for several batches, in their order, and only once: if the app has already published this version or
-- a higher one, nothing is published and the staged rows are deleted. If two calls try at the same time, the second
-- waits. Without a version the app is a job that publishes once, and is remembered for one day; with a version it is
-- remembered for ever. App names belong to the queue, and those of a login that is bound to channels to that login.
-- Returns what the app's last publication created, whether that was before this call, and the p_job of the call that
-- published it.
CREATE OR REPLACE FUNCTION staging_publish_once (p_app TEXT, p_version BIGINT, p_batches UUID[],
    p_drop_full BOOLEAN DEFAULT FALSE, p_job UUID DEFAULT NULL)
RETURNS TABLE (created BIGINT, duplicates BIGINT, refused BIGINT, is_repeat BOOLEAN, job UUID)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_bound REGROLE := CASE WHEN bound_channels() IS NULL THEN 0::OID::REGROLE
        ELSE quote_ident(session_user)::REGROLE END;
BEGIN
    IF p_app IS NULL OR octet_length(p_app) NOT BETWEEN 1 AND 255 OR p_version < 0
        OR p_batches IS NULL
        OR (CASE WHEN array_ndims(p_batches) > 1 THEN TRUE ELSE array_position(p_batches, NULL) IS NOT NULL END)
    THEN
        PERFORM refuse('LM010', format('app %s, version %s or its batches are not valid',
            COALESCE(quote_literal(left(p_app, 100)), 'NULL'), COALESCE(p_version::TEXT, 'NULL')),
            'Give an app name of 1 to 255 bytes, a version of 0 or more or NULL, and an array of batches.');
    END IF;
    INSERT INTO ledger AS l (bound_login, app, version, is_lasting, published_at, created, duplicates, refused, job)
    VALUES (v_bound, p_app, COALESCE(p_version, -1), p_version IS NOT NULL, clock_ms(), 0, 0, 0, p_job)
    ON CONFLICT (bound_login, app) DO UPDATE SET version = excluded.version, is_lasting = excluded.is_lasting,
        published_at = excluded.published_at, job = excluded.job
    WHERE l.version < excluded.version;
    is_repeat := NOT FOUND;
    IF is_repeat THEN
        PERFORM staging_discard(p_batches);
        SELECT l.created, l.duplicates, l.refused, l.job INTO created, duplicates, refused, job FROM ledger l
            WHERE l.bound_login = v_bound AND l.app = p_app;
    ELSE
        job := p_job;
        SELECT s.created, s.duplicates, s.refused INTO created, duplicates, refused
            FROM staging_create(p_batches, COALESCE(p_drop_full, FALSE)) s;
        UPDATE ledger l SET created = staging_publish_once.created, duplicates = staging_publish_once.duplicates,
            refused = staging_publish_once.refused
        WHERE l.bound_login = v_bound AND l.app = p_app;
    END IF;
    RETURN NEXT;
END $$;
