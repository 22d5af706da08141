-- By how much a message advances its channel: cost / weight in whole units, of which a message of cost 1 and weight 1 has 1,000.
-- At most a billion, so that tags last.
CREATE OR REPLACE FUNCTION tag_step (p_cost INT, p_step NUMERIC)
RETURNS BIGINT LANGUAGE sql IMMUTABLE
RETURN LEAST(1000000000, GREATEST(1, round(p_cost * p_step)))::BIGINT;
