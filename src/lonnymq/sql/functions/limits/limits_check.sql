-- Refuse limits that are out of range: those of a channel, or, with the prefix 'channel_', those that channels inherit
-- from the queue. NULL is always allowed.
CREATE OR REPLACE FUNCTION limits_check (
    p_code TEXT, p_prefix TEXT, p_max_concurrency INT, p_release_interval_us BIGINT, p_burst INT, p_max_size INT)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF p_max_concurrency NOT BETWEEN 0 AND 10000 THEN
        PERFORM refuse(p_code, format('a %smax_concurrency of %s is out of range', p_prefix, p_max_concurrency),
            'Allow 1 to 10,000 at once, or 0 for no limit; p_paused => TRUE stops a channel.');
    ELSIF p_release_interval_us NOT BETWEEN 0 AND 86400000000 THEN
        PERFORM refuse(p_code,
            format('a %srelease_interval_us of %s is out of range', p_prefix, p_release_interval_us),
            'Ask for 1 to 86,400,000,000 microseconds per message (a day), or 0 for no limit.');
    ELSIF p_burst NOT BETWEEN 1 AND 1000000 THEN
        PERFORM refuse(p_code, format('a %sburst of %s is out of range', p_prefix, p_burst),
            'Allow 1 to 1,000,000 messages at once.');
    ELSIF p_max_size < 0 THEN
        PERFORM refuse(p_code, format('a %smax_size of %s is out of range', p_prefix, p_max_size),
            'Allow 1 message or more, or 0 for no limit.');
    END IF;
END $$;
