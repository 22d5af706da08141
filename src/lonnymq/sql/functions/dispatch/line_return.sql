-- Entries that were in ready go back into their lines, and use no slots any more. The refill deals their tags anew.
CREATE OR REPLACE FUNCTION line_return (l lane_state, p_back ready[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_back IS NOT NULL THEN
        PERFORM line_add(l.name, p_back, TRUE);
        PERFORM slots_leave(p_back);
        PERFORM backlog_reopen(l, ARRAY(SELECT DISTINCT b.channel FROM unnest(p_back) b), FALSE, NULL);
    END IF;
END $$;
