-- Roles that are bound to channels: logins, or groups of them. They may produce to and observe these channels, and do
-- nothing else. A binding belongs to the role: renaming the role does not remove it. name is the last known name, and
-- matters once the role is dropped: a role that is created again under that name is bound, too.
CREATE TABLE credential (
    -- in a dump it is a name, and a restore finds the role of that name. 0: the role was dropped
    role REGROLE NOT NULL,
    name TEXT NOT NULL,
    channels TEXT[] NOT NULL,
    PRIMARY KEY (role, name)
);
CREATE INDEX credential_name_ix ON credential (name);
