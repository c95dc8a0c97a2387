-- Moves balances by the entries of a transaction, which must sum to zero. The mint's stands nowhere: it owes what all
-- others hold, and a balance that every claim and settlement moves would let them through one at a time.
CREATE FUNCTION cup_post_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    unbalanced bigint;
    moved record;
BEGIN
    SELECT transaction_id INTO unbalanced FROM posted GROUP BY transaction_id HAVING sum(amount_cents) <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the entries of cup transaction % do not sum to zero', unbalanced
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_cup_entry_balanced', TABLE = 'cup_entry';
    END IF;
    -- Wallets first, in the order of their names; see the schema's word on locks.
    FOR moved IN
        SELECT account, sum(amount_cents) AS cents FROM posted WHERE account <> 'mint' GROUP BY account
        ORDER BY NOT starts_with(account, 'wallet:'), account
    LOOP
        UPDATE cup_account SET balance_cents = balance_cents + moved.cents WHERE account = moved.account;
    END LOOP;
    RETURN NULL;
END
$$;
CREATE TRIGGER cup_entries_posted AFTER INSERT ON cup_entry
    REFERENCING NEW TABLE AS posted FOR EACH STATEMENT EXECUTE FUNCTION cup_post_entries();

-- A balance follows from entries alone.
CREATE FUNCTION cup_guard_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (TG_OP = 'INSERT' AND NEW.balance_cents <> 0) OR (TG_OP <> 'INSERT' AND pg_trigger_depth() < 2) THEN
        RAISE EXCEPTION 'balances move by entries only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER cup_balance_guarded BEFORE INSERT OR UPDATE ON cup_account
    FOR EACH ROW EXECUTE FUNCTION cup_guard_balance();

CREATE FUNCTION cup_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER cup_entry_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON cup_entry
    FOR EACH STATEMENT EXECUTE FUNCTION cup_refuse_change();
CREATE TRIGGER cup_transaction_kept BEFORE DELETE OR UPDATE OR TRUNCATE ON cup_transaction
    FOR EACH STATEMENT EXECUTE FUNCTION cup_refuse_change();

-- The account that all paper money comes from.
INSERT INTO cup_account (account) VALUES ('mint');
