-- By how much a message of cost 1 advances the tag of a channel with this weight; NULL: of one without a policy.
CREATE OR REPLACE FUNCTION weight_step (p_weight NUMERIC)
RETURNS DOUBLE PRECISION LANGUAGE sql IMMUTABLE
RETURN 1000 / COALESCE(p_weight, 1)::DOUBLE PRECISION;
