-- Part of claim_next, which has locked the claimant: move the messages of its last claim that do not fit into
-- p_max_bytes of content to claims with the next numbers, each as large as that allows, but with at least one message.
-- Their messages stay leased. Returns how many messages the claim has left.
CREATE OR REPLACE FUNCTION claim_split (p_claimant TEXT, p_seq BIGINT, p_max_bytes BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_seq BIGINT := p_seq;
    v_last BIGINT := (SELECT c.last_seq FROM claimant c WHERE c.name = p_claimant);
    v_bytes BIGINT;                         -- of the claim v_seq; NULL: it is empty
    v_seqs BIGINT[] := '{}';
    x RECORD;
BEGIN
    FOR x IN
        SELECT octet_length(m.content) AS bytes FROM claim c LEFT JOIN message m ON m.id = c.id
        WHERE c.claimant = p_claimant AND c.seq = p_seq ORDER BY c.ord
    LOOP
        IF v_bytes + x.bytes > p_max_bytes THEN
            v_last := v_last + 1;
            v_seq := v_last;
            v_bytes := NULL;
        END IF;
        v_bytes := COALESCE(v_bytes, 0) + COALESCE(x.bytes, 0);
        v_seqs := v_seqs || v_seq;
    END LOOP;
    UPDATE claim c SET seq = n.seq
    FROM (
        SELECT o.ord, v_seqs[ROW_NUMBER() OVER (ORDER BY o.ord)] AS seq FROM claim o
        WHERE o.claimant = p_claimant AND o.seq = p_seq) n
    WHERE c.claimant = p_claimant AND c.seq = p_seq AND c.ord = n.ord AND n.seq <> p_seq;
    UPDATE claimant SET last_seq = v_last WHERE name = p_claimant;
    RETURN cardinality(array_positions(v_seqs, p_seq));
END $$;
