-- How far maintain() has cleaned, and the lock that keeps two of them apart.
CREATE TABLE upkeep (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    cleaned_xid XID8 NOT NULL DEFAULT '0',  -- wakes below are gone,
    passed_xid XID8 NOT NULL DEFAULT '0',   -- and those below this, but for what was open
    held_xid XID8,                          -- the lowest transaction that was
    next_channel TEXT COLLATE "C"           -- ring rows are looked at downwards from here; NULL: from the top
);
INSERT INTO upkeep DEFAULT VALUES;
