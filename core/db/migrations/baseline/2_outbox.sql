-- Payload: `<chain id>:<lane group>`. Once per statement and group, however many intents it added.
CREATE FUNCTION outbox_intents_asked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox_history (intent_id, to_state, tx_hash, reason)
        SELECT id, state, tx_hash, reason FROM added ORDER BY id;
    PERFORM pg_notify('outbox_queued', chain_id || ':' || lane_group)
        FROM (SELECT DISTINCT chain_id, lane_group FROM added WHERE state = 'queued') AS asked;
    RETURN NULL;
END
$$;
CREATE TRIGGER outbox_intent_asked AFTER INSERT ON outbox_intent
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION outbox_intents_asked();

-- Refuses a change of state that core.outbox.IntentState does not list, writes the history, and notifies.
-- Payload: `<id>:<state>` joined by commas, 200 at a time, since a payload holds 8000 bytes.
CREATE FUNCTION outbox_intents_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong text;
BEGIN
    SELECT format('intent %s cannot go from %s to %s', o.id, o.state, n.state) INTO wrong
        FROM before AS o JOIN after AS n USING (id)
        WHERE o.state <> n.state AND (o.state, n.state) NOT IN (
            ('queued', 'signed'), ('queued', 'failed'),
            ('signed', 'sent'), ('signed', 'mined'), ('signed', 'queued'),
            ('sent', 'mined'), ('sent', 'queued'),
            ('mined', 'sent'), ('mined', 'final'), ('mined', 'failed'), ('mined', 'replaced'),
            ('final', 'sent'), ('failed', 'sent'), ('replaced', 'sent'), ('failed', 'queued'))
            -- only what never had a nonce may be asked for again
            OR (o.state = 'failed' AND n.state = 'queued' AND o.nonce IS NOT NULL)
        LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = wrong;
    END IF;
    WITH moved AS (
        SELECT n.id, o.state AS was, n.state, n.tx_hash, n.reason
            FROM before AS o JOIN after AS n USING (id) WHERE o.state <> n.state
    ), written AS (
        INSERT INTO outbox_history (intent_id, from_state, to_state, tx_hash, reason)
            SELECT id, was, state, tx_hash, reason FROM moved ORDER BY id
    ), numbered AS (
        SELECT id, state, (row_number() OVER (ORDER BY id) - 1) / 200 AS part FROM moved
    ), signals AS (
        SELECT string_agg(id || ':' || state, ',' ORDER BY id) AS payload FROM numbered GROUP BY part
    )
    SELECT count(pg_notify('outbox_state', payload)::text)::text INTO wrong FROM signals;
    IF EXISTS (SELECT FROM before AS o JOIN after AS n USING (id) WHERE n.state = 'queued' AND o.state <> 'queued') THEN
        PERFORM pg_notify('outbox_queued', chain_id || ':' || lane_group)
            FROM (SELECT DISTINCT chain_id, lane_group FROM after WHERE state = 'queued') AS again;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER outbox_intent_moved AFTER UPDATE ON outbox_intent
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION outbox_intents_moved();

-- Refuses every change, and every deletion but those of core.outbox.thin_long_ended, which sets a flag for its own transaction.
CREATE FUNCTION outbox_rows_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('vpm.outbox_retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = TG_TABLE_NAME || ' rows are never changed';
END
$$;
CREATE TRIGGER outbox_history_rows_are_kept BEFORE DELETE OR UPDATE ON outbox_history
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_rows_are_kept();
CREATE TRIGGER outbox_transaction_rows_are_kept BEFORE DELETE OR UPDATE ON outbox_transaction
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_rows_are_kept();
