-- staging_publish for several batches, in their order, and only once: if the app has already published this version or
-- a higher one, nothing is published and the staged rows are deleted. If two calls try at the same time, the second
-- waits. Without a version the app is a job that publishes once, and is remembered for one day; with a version it is
-- remembered for ever. App names belong to the caller's login role. Returns what was created when it was published, and
-- whether that was before this call.
CREATE OR REPLACE FUNCTION staging_publish_once (p_app TEXT, p_version BIGINT, p_batches UUID[],
    p_drop_full BOOLEAN DEFAULT FALSE)
RETURNS TABLE (created BIGINT, duplicates BIGINT, refused BIGINT, is_repeat BOOLEAN) LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off AS $$
#variable_conflict use_column
DECLARE
    v_login REGROLE := quote_ident(session_user)::REGROLE;
BEGIN
    IF p_app IS NULL OR octet_length(p_app) NOT BETWEEN 1 AND 255 OR p_version < 0
        OR cardinality(p_batches) IS NULL OR array_position(p_batches, NULL) IS NOT NULL THEN
        PERFORM refuse('LM010', format('app %s, version %s or its batches are not valid',
            COALESCE(quote_literal(left(p_app, 100)), 'NULL'), COALESCE(p_version::TEXT, 'NULL')),
            'Give an app name of 1 to 255 bytes, a version of 0 or more or NULL, and an array of batches.');
    END IF;
    INSERT INTO ledger AS l (app, version, is_lasting, published_at, created, duplicates, refused)
    VALUES (p_app, COALESCE(p_version, -1), p_version IS NOT NULL, clock_ms(), 0, 0, 0)
    ON CONFLICT (published_by, app) DO UPDATE
    SET version = excluded.version, is_lasting = excluded.is_lasting, published_at = excluded.published_at
    WHERE l.version < excluded.version;
    is_repeat := NOT FOUND;
    IF is_repeat THEN
        PERFORM staging_discard(p_batches);
        SELECT l.created, l.duplicates, l.refused INTO created, duplicates, refused FROM ledger l
            WHERE l.published_by = v_login AND l.app = p_app;
    ELSE
        SELECT s.created, s.duplicates, s.refused INTO created, duplicates, refused
            FROM staging_create(p_batches, COALESCE(p_drop_full, FALSE)) s;
        UPDATE ledger l SET created = staging_publish_once.created, duplicates = staging_publish_once.duplicates,
            refused = staging_publish_once.refused
        WHERE l.published_by = v_login AND l.app = p_app;
    END IF;
    RETURN NEXT;
END $$;
