-- Move all entries of these channels in a lane from ready back into their lines: see ready_withdraw.
CREATE OR REPLACE FUNCTION ready_withdraw_channels (l lane_state, p_channels TEXT[])
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM ready_withdraw(l, ARRAY(        -- each mark comes before everything
        SELECT ROW(0, 0, -32768, -9223372036854775808, 0, l.name, c)::entry FROM unnest(p_channels) c),
        TRUE);
END $$;
