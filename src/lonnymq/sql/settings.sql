-- Planner settings for every public function: generic plans that use indexes, whatever the server's settings and
-- statistics are. Internal functions inherit them from their callers. Runs after the functions at every install.
DO $$
DECLARE
    v_function REGPROCEDURE;
BEGIN
    FOR v_function IN
        SELECT p.oid
        FROM pg_catalog.pg_proc p
        CROSS JOIN installation i
        WHERE p.pronamespace = CAST(quote_ident(current_schema()) AS REGNAMESPACE)
          AND p.prosecdef AND p.proname = ANY (i.functions)
    LOOP
        EXECUTE format('ALTER FUNCTION %s', v_function)
            || ' SET plan_cache_mode TO force_generic_plan SET enable_seqscan TO off SET enable_bitmapscan TO off'
            || ' SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off';
    END LOOP;
END $$;
