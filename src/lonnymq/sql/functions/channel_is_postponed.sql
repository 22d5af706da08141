-- Whether newcomers of a channel are still to be placed, because somebody held its row: they may stand in what is taken for a gap.
CREATE OR REPLACE FUNCTION channel_is_postponed (p_channel TEXT)
RETURNS BOOLEAN LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM postponed p
        WHERE p.key = 'c' || p_channel AND p.id >= (SELECT t.postponed_id FROM tick t ORDER BY t.id DESC LIMIT 1) AND p.lo_at IS NOT NULL);
END $$;
