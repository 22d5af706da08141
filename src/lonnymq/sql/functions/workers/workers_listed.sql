-- The workers that people see: all rows except those of workers that were replaced. A worker was replaced if it is not
-- alive, and one with its name on its host is, which started after its last report.
CREATE OR REPLACE FUNCTION workers_listed (p_now BIGINT)
RETURNS SETOF worker LANGUAGE sql STABLE AS $$
    SELECT * FROM worker w
    WHERE w.id IN (SELECT l.id FROM workers_live(p_now) l) OR NOT EXISTS (
        SELECT FROM workers_live(p_now) l
        WHERE l.name = w.name AND l.host = w.host AND l.started_at > w.seen_at)
$$;
