-- Up to where the ticks of a schedule are decided. Who moves it from the value that it read is the one that fires.
CREATE TABLE schedule (
    name TEXT COLLATE "C" PRIMARY KEY,
    ticked_at BIGINT NOT NULL,              -- the last tick that was fired or left out; at first, when it was opened
    fired_at BIGINT,                        -- the last tick that was fired
    opened_at BIGINT NOT NULL
);
