-- Roles that are bound to channels: logins, or groups of them. They may produce to and observe these channels, and do
-- nothing else. A binding belongs to the role, whatever its name: renaming the role does not free it. The name is the
-- last one that was known, and counts once the role is dropped: a role that is made again under that name is bound,
-- too.
CREATE TABLE credential (
    -- a dump has its name, and a restore finds the role of that name. 0: it was dropped
    role REGROLE NOT NULL,
    name TEXT NOT NULL,
    channels TEXT[] NOT NULL,
    PRIMARY KEY (role, name)
);
CREATE INDEX credential_name_ix ON credential (name);
