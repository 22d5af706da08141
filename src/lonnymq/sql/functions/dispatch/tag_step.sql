-- By how much a message advances its channel: cost / weight in whole units, of which a message of cost 1 and weight 1
-- has 1,000. What is left of a unit is rounded up for some messages and down for others, by their id, so that the
-- mean is right. At most a billion, so that tags last.
CREATE OR REPLACE FUNCTION tag_step (p_cost INT, p_step DOUBLE PRECISION, p_id BIGINT)
RETURNS INT LANGUAGE sql IMMUTABLE
RETURN LEAST(1000000000, GREATEST(1, floor(p_cost * p_step + (p_id % 1000003) * 0.6180339887498949::DOUBLE PRECISION
    - floor((p_id % 1000003) * 0.6180339887498949::DOUBLE PRECISION))))::INT;
