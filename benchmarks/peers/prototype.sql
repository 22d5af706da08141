-- The prototype of LonnyMQ: round robin over channels, with concurrency and release interval kept in the channel's row.
-- It is unchanged, including its defects, except for one name that was ambiguous, because we compare with it.
CREATE SCHEMA prototype;
SET search_path TO prototype;

CREATE TABLE channel (
    id BIGSERIAL PRIMARY KEY,
    name TEXT NOT NULL,
    max_concurrency INTEGER NOT NULL DEFAULT 2147483647,
    release_interval_ms INTEGER NOT NULL DEFAULT 0,
    current_concurrency INTEGER NOT NULL DEFAULT 0,
    head_message_id BIGINT,
    head_message_dequeue_at BIGINT,
    last_dequeue_at BIGINT NOT NULL DEFAULT 0,
    next_dequeue_at BIGINT
);

CREATE TABLE message (
    id BIGSERIAL PRIMARY KEY,
    channel_id BIGINT NOT NULL,
    content BYTEA NOT NULL,
    dequeue_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX channel_name_ix
ON "channel" ("name" ASC);

CREATE INDEX channel_dequeue_ix
ON "channel" ("next_dequeue_at" ASC, "id" ASC)
WHERE "head_message_id" IS NOT NULL
AND "current_concurrency" < "max_concurrency";

CREATE INDEX message_dequeue_ix
ON "message" ("channel_id" ASC, "dequeue_at" ASC, "id" ASC);

CREATE FUNCTION to_epoch (
    p_timestamp TIMESTAMPTZ
) RETURNS BIGINT AS $$
BEGIN
    RETURN FLOOR(EXTRACT(EPOCH FROM p_timestamp) * 1000)::BIGINT;
END;
$$ LANGUAGE plpgsql;

CREATE FUNCTION message_create (
    p_content BYTEA,
    p_channel TEXT,
    p_dequeue_at TIMESTAMPTZ
) RETURNS VOID AS $$
DECLARE
    v_dequeue_at BIGINT;
    v_message RECORD;
    v_channel RECORD;
BEGIN
    v_dequeue_at := CASE
        WHEN p_dequeue_at IS NULL
        THEN to_epoch(NOW())
        ELSE to_epoch(p_dequeue_at)
    END;

    SELECT
        "id",
        "head_message_id",
        "head_message_dequeue_at",
        "last_dequeue_at",
        "next_dequeue_at",
        "release_interval_ms"
    FROM "channel"
    WHERE "name" = p_channel
    FOR UPDATE
    INTO v_channel;

    IF v_channel."id" IS NULL THEN
        RAISE EXCEPTION 'channel does not exist';
    END IF;

    INSERT INTO "message" (content, channel_id, dequeue_at)
    VALUES (p_content, v_channel."id", v_dequeue_at)
    RETURNING "id"
    INTO v_message;

    IF
        v_channel."head_message_id" IS NULL OR
        v_dequeue_at < v_channel."head_message_dequeue_at"
    THEN
        UPDATE "channel" SET
            "head_message_id" = v_message."id",
            "head_message_dequeue_at" = v_dequeue_at,
            "next_dequeue_at" = GREATEST(
                v_dequeue_at,
                v_channel."last_dequeue_at" + v_channel."release_interval_ms"
            )
        WHERE "id" = v_channel."id";
    END IF;
END;
$$ LANGUAGE plpgsql;

CREATE FUNCTION message_dequeue ()
RETURNS TABLE (
    channel TEXT,
    content BYTEA
)
AS $$
DECLARE
    v_now BIGINT;
    v_channel RECORD;
    v_message RECORD;
    v_next_message RECORD;
BEGIN
    v_now := to_epoch(NOW());

    -- Capture the channel whose head message is next in line
    SELECT
        "id",
        "name",
        "head_message_id",
        "next_dequeue_at",
        "current_concurrency",
        "release_interval_ms"
    FROM "channel"
    WHERE "head_message_id" IS NOT NULL
    AND "next_dequeue_at" <= v_now
    AND "current_concurrency" < "max_concurrency"
    ORDER BY "next_dequeue_at" ASC, "id" ASC
    LIMIT 1
    FOR UPDATE SKIP LOCKED
    INTO v_channel;

    -- If there is no channel ready to service, return a NULL
    IF v_channel."id" IS NULL THEN
        RETURN QUERY SELECT NULL::TEXT, NULL::BYTEA;
        RETURN;
    END IF;

    -- Capture the head message from the selected channel
    SELECT m."id", m."content" FROM "message" m
    WHERE m."id" = v_channel."head_message_id"
    FOR UPDATE
    INTO v_message;

    IF v_message."id" IS NULL THEN
        RAISE EXCEPTION 'head message does not exist';
    END IF;

    -- Delete the message from the queue
    DELETE FROM "message"
    WHERE "id" = v_message."id";

    -- Find the next message from the same channel
    SELECT "id", "dequeue_at" FROM "message"
    WHERE "channel_id" = v_channel."id"
    ORDER BY "dequeue_at" ASC, "id" ASC
    LIMIT 1
    INTO v_next_message;

    IF v_next_message."id" IS NULL THEN
        UPDATE "channel" SET
            "current_concurrency" = v_channel."current_concurrency" + 1,
            "head_message_id" = NULL,
            "head_message_dequeue_at" = NULL,
            "last_dequeue_at" = v_now,
            "next_dequeue_at" = NULL
        WHERE "id" = v_channel."id";
    ELSE
        UPDATE "channel" SET
            "current_concurrency" = v_channel."current_concurrency" + 1,
            "head_message_id" = v_next_message."id",
            "head_message_dequeue_at" = v_next_message."dequeue_at",
            "last_dequeue_at" = v_now,
            "next_dequeue_at" = GREATEST(
                v_next_message."dequeue_at",
                v_now + v_channel."release_interval_ms"
            )
        WHERE "id" = v_channel."id";
    END IF;

    RETURN QUERY SELECT v_channel."name", v_message."content";
    RETURN;
END;
$$ LANGUAGE plpgsql;

CREATE FUNCTION message_complete (
    p_channel TEXT
) RETURNS VOID AS $$
BEGIN
    UPDATE "channel" SET
        "current_concurrency" = "current_concurrency" - 1
    WHERE "name" = p_channel;
END;
$$ LANGUAGE plpgsql;
