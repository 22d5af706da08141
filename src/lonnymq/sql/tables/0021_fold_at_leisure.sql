-- Calls whose parameters changed: CREATE OR REPLACE would leave the old one beside the new.
DROP FUNCTION IF EXISTS wake_fold(INT);
DROP FUNCTION IF EXISTS queue_slot_fill(TID[], TEXT[], UUID);
