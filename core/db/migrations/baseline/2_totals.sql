-- Sums over the projections, kept by whatever changes a row there: added when rows come, taken off when they go.
-- An update does both. A sum of nothing has no row. core/db/schema/totals.py says what each is for.

CREATE FUNCTION sum_agent_market() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM agent_total;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO agent_total AS t (feed, settled, stakes, staked, paid_out)
            SELECT feed, sum((status <> 1)::int) AS settled, sum(stakes) AS stakes, sum(staked) AS staked,
                sum(paid_out) AS paid_out
            FROM added GROUP BY 1 ORDER BY 1
        ON CONFLICT (feed) DO UPDATE SET settled = t.settled + excluded.settled, stakes = t.stakes + excluded.stakes,
            staked = t.staked + excluded.staked, paid_out = t.paid_out + excluded.paid_out;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        UPDATE agent_total AS t SET settled = t.settled - r.settled, stakes = t.stakes - r.stakes, staked = t.staked -
            r.staked, paid_out = t.paid_out - r.paid_out
            FROM (SELECT feed, sum((status <> 1)::int) AS settled, sum(stakes) AS stakes, sum(staked) AS staked,
                sum(paid_out) AS paid_out
                FROM removed GROUP BY 1) AS r
            WHERE t.feed = r.feed;
        DELETE FROM agent_total AS t USING (SELECT DISTINCT feed FROM removed) AS r
            WHERE t.feed = r.feed AND t.settled = 0 AND t.stakes = 0 AND t.staked = 0 AND t.paid_out = 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER sum_agent_market_insert AFTER INSERT ON agent_market
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_agent_market();
CREATE TRIGGER sum_agent_market_update AFTER UPDATE ON agent_market
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_agent_market();
CREATE TRIGGER sum_agent_market_delete AFTER DELETE ON agent_market
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION sum_agent_market();
CREATE TRIGGER sum_agent_market_truncate AFTER TRUNCATE ON agent_market
    FOR EACH STATEMENT EXECUTE FUNCTION sum_agent_market();

CREATE FUNCTION sum_stock_market() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM stock_total;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stock_total AS t (family, markets, settled, resolved, seeded, principal, fees, paid)
            SELECT family, sum(1) AS markets, sum((closed_tx IS NOT NULL)::int) AS settled, sum((winner IS NOT
                NULL)::int) AS resolved, sum(2 * seed_per_leg) AS seeded, sum(principal_up + principal_down) AS
                principal, sum(fees) AS fees, sum(paid) AS paid
            FROM added WHERE feed IS NOT NULL AND strike_time IS NOT NULL GROUP BY 1 ORDER BY 1
        ON CONFLICT (family) DO UPDATE SET markets = t.markets + excluded.markets, settled = t.settled +
            excluded.settled, resolved = t.resolved + excluded.resolved, seeded = t.seeded + excluded.seeded,
            principal = t.principal + excluded.principal, fees = t.fees + excluded.fees, paid = t.paid + excluded.paid;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        UPDATE stock_total AS t SET markets = t.markets - r.markets, settled = t.settled - r.settled, resolved =
            t.resolved - r.resolved, seeded = t.seeded - r.seeded, principal = t.principal - r.principal, fees =
            t.fees - r.fees, paid = t.paid - r.paid
            FROM (SELECT family, sum(1) AS markets, sum((closed_tx IS NOT NULL)::int) AS settled, sum((winner IS NOT
                NULL)::int) AS resolved, sum(2 * seed_per_leg) AS seeded, sum(principal_up + principal_down) AS
                principal, sum(fees) AS fees, sum(paid) AS paid
                FROM removed WHERE feed IS NOT NULL AND strike_time IS NOT NULL GROUP BY 1) AS r
            WHERE t.family = r.family;
        DELETE FROM stock_total AS t USING (SELECT DISTINCT family FROM removed) AS r
            WHERE t.family = r.family AND t.markets = 0 AND t.settled = 0 AND t.resolved = 0 AND t.seeded = 0 AND
                t.principal = 0 AND t.fees = 0 AND t.paid = 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER sum_stock_market_insert AFTER INSERT ON stock_market
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_market();
CREATE TRIGGER sum_stock_market_update AFTER UPDATE ON stock_market
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_market();
CREATE TRIGGER sum_stock_market_delete AFTER DELETE ON stock_market
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_market();
CREATE TRIGGER sum_stock_market_truncate AFTER TRUNCATE ON stock_market
    FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_market();

CREATE FUNCTION sum_stock_position() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM stock_bettor;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stock_bettor AS t (entered_by, bets, offered, payout)
            SELECT entered_by, sum(1) AS bets, sum(offered) AS offered, sum(payout) AS payout
            FROM added WHERE vintage > 0 GROUP BY 1 ORDER BY 1
        ON CONFLICT (entered_by) DO UPDATE SET bets = t.bets + excluded.bets, offered = t.offered + excluded.offered,
            payout = t.payout + excluded.payout;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        UPDATE stock_bettor AS t SET bets = t.bets - r.bets, offered = t.offered - r.offered, payout = t.payout -
            r.payout
            FROM (SELECT entered_by, sum(1) AS bets, sum(offered) AS offered, sum(payout) AS payout
                FROM removed WHERE vintage > 0 GROUP BY 1) AS r
            WHERE t.entered_by = r.entered_by;
        DELETE FROM stock_bettor AS t USING (SELECT DISTINCT entered_by FROM removed) AS r
            WHERE t.entered_by = r.entered_by AND t.bets = 0 AND t.offered = 0 AND t.payout = 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER sum_stock_position_insert AFTER INSERT ON stock_position
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_position();
CREATE TRIGGER sum_stock_position_update AFTER UPDATE ON stock_position
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_position();
CREATE TRIGGER sum_stock_position_delete AFTER DELETE ON stock_position
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_position();
CREATE TRIGGER sum_stock_position_truncate AFTER TRUNCATE ON stock_position
    FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_position();

CREATE FUNCTION sum_stock_bettor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM stock_betting;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stock_betting AS t (id, wallets, bets, offered, payout)
            SELECT 1::smallint AS id, sum(1) AS wallets, sum(bets) AS bets, sum(offered) AS offered, sum(payout) AS
                payout
            FROM added GROUP BY 1 ORDER BY 1
        ON CONFLICT (id) DO UPDATE SET wallets = t.wallets + excluded.wallets, bets = t.bets + excluded.bets, offered
            = t.offered + excluded.offered, payout = t.payout + excluded.payout;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        UPDATE stock_betting AS t SET wallets = t.wallets - r.wallets, bets = t.bets - r.bets, offered = t.offered -
            r.offered, payout = t.payout - r.payout
            FROM (SELECT 1::smallint AS id, sum(1) AS wallets, sum(bets) AS bets, sum(offered) AS offered, sum(payout)
                AS payout
                FROM removed GROUP BY 1) AS r
            WHERE t.id = r.id;
        DELETE FROM stock_betting AS t USING (SELECT DISTINCT 1::smallint AS id FROM removed) AS r
            WHERE t.id = r.id AND t.wallets = 0 AND t.bets = 0 AND t.offered = 0 AND t.payout = 0;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER sum_stock_bettor_insert AFTER INSERT ON stock_bettor
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_bettor();
CREATE TRIGGER sum_stock_bettor_update AFTER UPDATE ON stock_bettor
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_bettor();
CREATE TRIGGER sum_stock_bettor_delete AFTER DELETE ON stock_bettor
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_bettor();
CREATE TRIGGER sum_stock_bettor_truncate AFTER TRUNCATE ON stock_bettor
    FOR EACH STATEMENT EXECUTE FUNCTION sum_stock_bettor();
