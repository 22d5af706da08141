-- A concurrency limit over all channels: one row a slot, and a message leased only by who holds a slot for it. A slot is busy
-- while its message is leased under its token, so nothing is counted up and down and nothing can leak. Consumers step over slots
-- that others hold. The live row of a slot is the first from the high end. Number 0 is no slot: while leases
-- from before the limit was lowered still run, who dequeues must hold it.
CREATE TABLE queue_slot (
    number INT NOT NULL,
    turn BIGINT NOT NULL,
    message_id BIGINT,
    token UUID,
    PRIMARY KEY (number, turn)
);
