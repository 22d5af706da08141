-- The key under which the end of a message is notified. Everybody in the database may LISTEN, and must not learn the
-- ids of messages, so the key depends on a secret; status_get tells it to callers who may see the message.
CREATE OR REPLACE FUNCTION result_key (p_id BIGINT, p_secret TEXT)
RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT left(encode(sha256((p_secret || p_id)::BYTEA), 'hex'), 8)
$$;
