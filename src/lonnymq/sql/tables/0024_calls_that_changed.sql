-- Calls whose parameters changed: CREATE OR REPLACE would leave the old one beside the new.
DROP FUNCTION IF EXISTS message_extend(BIGINT, UUID, BIGINT);
DROP FUNCTION IF EXISTS message_extend_many(BIGINT[], UUID[], BIGINT);
DROP FUNCTION IF EXISTS lease_is_due(tick, BIGINT);
