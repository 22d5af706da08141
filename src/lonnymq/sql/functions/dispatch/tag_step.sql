-- By how much a message advances the tag of its channel: cost / weight, in thousandths. The fraction is rounded up for
-- some ids and down for others, so that the mean is exact. At most a billion, so that tags do not overflow.
CREATE OR REPLACE FUNCTION tag_step (p_cost INT, p_step DOUBLE PRECISION, p_id BIGINT)
RETURNS INT LANGUAGE sql IMMUTABLE
RETURN LEAST(1000000000, GREATEST(1, floor(p_cost * p_step + (p_id % 1000003) * 0.6180339887498949::DOUBLE PRECISION
    - floor((p_id % 1000003) * 0.6180339887498949::DOUBLE PRECISION))))::INT;
