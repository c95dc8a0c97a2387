-- Made from core/db/schema by `python -m core.db.migrations.tables`; a test fails while they differ.

CREATE TABLE agent_authorization (
    wallet BYTEA NOT NULL,
    nonce BYTEA NOT NULL,
    bet_hash BYTEA NOT NULL,
    idem_hash BYTEA NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    arguments BYTEA NOT NULL,
    brought_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agent_authorization PRIMARY KEY (wallet, nonce)
);
CREATE INDEX ix_agent_authorization_idem_hash ON agent_authorization (wallet, idem_hash);

CREATE TABLE agent_event (
    wallet BYTEA NOT NULL,
    seq BIGINT NOT NULL,
    source BYTEA NOT NULL,
    occurrence SMALLINT NOT NULL,
    corrects BYTEA,
    type TEXT NOT NULL,
    market_id TEXT,
    trade_id BYTEA,
    at_micros BIGINT NOT NULL,
    block_number BIGINT,
    payload TEXT NOT NULL,
    recorded_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agent_event PRIMARY KEY (wallet, seq),
    CONSTRAINT ck_agent_event_seq_counts_from_zero CHECK (seq >= 0)
);
CREATE INDEX ix_agent_event_at ON agent_event (wallet, at_micros);
CREATE INDEX ix_agent_event_block_number ON agent_event (block_number) WHERE block_number IS NOT NULL;
CREATE INDEX ix_agent_event_trade_id ON agent_event (trade_id, seq) WHERE trade_id IS NOT NULL;
CREATE UNIQUE INDEX uq_agent_event_corrects ON agent_event (corrects, occurrence) WHERE corrects IS NOT NULL;
CREATE UNIQUE INDEX uq_agent_event_source ON agent_event (source, occurrence);

CREATE TABLE agent_event_wallet (
    wallet BYTEA NOT NULL,
    next_seq BIGINT DEFAULT '0' NOT NULL,
    chain_micros BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_agent_event_wallet PRIMARY KEY (wallet)
);

CREATE TABLE agent_fee_sweep (
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    at BIGINT NOT NULL,
    tx BYTEA NOT NULL,
    CONSTRAINT pk_agent_fee_sweep PRIMARY KEY (block_number, log_index)
);

CREATE TABLE agent_feed (
    feed BYTEA NOT NULL,
    allowed BOOLEAN NOT NULL,
    condemned BOOLEAN NOT NULL,
    published BOOLEAN NOT NULL,
    memory BIGINT NOT NULL,
    max_age BIGINT NOT NULL,
    lag BIGINT NOT NULL,
    pot_cap NUMERIC(78, 0) NOT NULL,
    step BIGINT NOT NULL,
    feed_cap NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_agent_feed PRIMARY KEY (feed)
);

CREATE TABLE agent_holding (
    wallet BYTEA NOT NULL,
    market_id BYTEA NOT NULL,
    outcome SMALLINT NOT NULL,
    stakes INTEGER NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    shares NUMERIC(78, 0) NOT NULL,
    worth NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_agent_holding PRIMARY KEY (wallet, market_id, outcome)
);

CREATE TABLE agent_market (
    market_id BYTEA NOT NULL,
    index INTEGER NOT NULL,
    kind SMALLINT NOT NULL,
    feed BYTEA NOT NULL,
    target NUMERIC(78, 0) NOT NULL,
    bounds NUMERIC(78, 0)[] NOT NULL,
    early_resolvable BOOLEAN NOT NULL,
    opens_at BIGINT NOT NULL,
    closes_at BIGINT NOT NULL,
    start_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    outcomes SMALLINT NOT NULL,
    weights NUMERIC(78, 0)[] NOT NULL,
    fee_bps INTEGER NOT NULL,
    pot_cap NUMERIC(78, 0) NOT NULL,
    published BOOLEAN NOT NULL,
    max_age BIGINT NOT NULL,
    early_from BIGINT NOT NULL,
    settles_after BIGINT NOT NULL,
    voids_after BIGINT NOT NULL,
    lister BYTEA NOT NULL,
    metadata TEXT NOT NULL,
    document JSONB,
    slug TEXT,
    staked NUMERIC(78, 0) NOT NULL,
    net_pool NUMERIC(78, 0) NOT NULL,
    stakes INTEGER NOT NULL,
    late_payments INTEGER NOT NULL,
    paid_out NUMERIC(78, 0) NOT NULL,
    paid_shares NUMERIC(78, 0) NOT NULL,
    given_back NUMERIC(78, 0) NOT NULL,
    unpaid INTEGER DEFAULT '0' NOT NULL,
    status SMALLINT NOT NULL,
    winner SMALLINT,
    void_reason SMALLINT,
    end_round NUMERIC(78, 0),
    end_answer NUMERIC(78, 0),
    end_updated_at BIGINT,
    start_round NUMERIC(78, 0),
    start_answer NUMERIC(78, 0),
    start_updated_at BIGINT,
    closed_block BIGINT,
    closed_at BIGINT,
    closed_tx BYTEA,
    listed_block BIGINT NOT NULL,
    listed_log_index INTEGER NOT NULL,
    listed_at BIGINT NOT NULL,
    listed_tx BYTEA NOT NULL,
    updated_block BIGINT NOT NULL,
    CONSTRAINT pk_agent_market PRIMARY KEY (market_id),
    CONSTRAINT ck_agent_market_status_is_known CHECK (status IN (1, 2, 3)),
    CONSTRAINT ck_agent_market_resolved_has_a_winner CHECK ((status = 2) = (winner IS NOT NULL)),
    CONSTRAINT ck_agent_market_void_has_a_reason CHECK ((status = 3) = (void_reason IS NOT NULL)),
    CONSTRAINT ck_agent_market_closed_once CHECK ((status = 1) = (closed_tx IS NULL))
);
CREATE INDEX ix_agent_market_closed ON agent_market (closed_at, market_id) WHERE status <> 1;
CREATE UNIQUE INDEX ix_agent_market_index ON agent_market (index);
CREATE INDEX ix_agent_market_open ON agent_market (market_id) WHERE status = 1;
CREATE INDEX ix_agent_market_settled ON agent_market (feed, kind, closes_at, listed_block, listed_log_index) WHERE status <> 1;
CREATE INDEX ix_agent_market_slug ON agent_market (slug);
CREATE INDEX ix_agent_market_unpaid ON agent_market (market_id) WHERE unpaid > 0;
CREATE INDEX ix_agent_market_updated ON agent_market (updated_block);

CREATE TABLE agent_outcome (
    market_id BYTEA NOT NULL,
    outcome SMALLINT NOT NULL,
    net NUMERIC(78, 0) NOT NULL,
    shares NUMERIC(78, 0) NOT NULL,
    excess NUMERIC(78, 0) NOT NULL,
    stakes INTEGER NOT NULL,
    CONSTRAINT pk_agent_outcome PRIMARY KEY (market_id, outcome)
);

CREATE TABLE agent_quote (
    quote_id TEXT NOT NULL,
    market_id BYTEA NOT NULL,
    outcome SMALLINT NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    wallet BYTEA,
    idem_hash BYTEA,
    CONSTRAINT pk_agent_quote PRIMARY KEY (quote_id),
    CONSTRAINT ck_agent_quote_used_by_a_trade CHECK ((wallet IS NULL) = (idem_hash IS NULL))
);
CREATE INDEX ix_agent_quote_expires_at ON agent_quote (expires_at);

CREATE TABLE agent_role (
    role BYTEA NOT NULL,
    account BYTEA NOT NULL,
    allowed BOOLEAN NOT NULL,
    CONSTRAINT pk_agent_role PRIMARY KEY (role, account)
);

CREATE TABLE agent_stake (
    stake_id BIGINT NOT NULL,
    market_id BYTEA NOT NULL,
    ordinal INTEGER NOT NULL,
    wallet BYTEA NOT NULL,
    outcome SMALLINT,
    amount NUMERIC(78, 0) NOT NULL,
    fee NUMERIC(78, 0) NOT NULL,
    shares NUMERIC(78, 0) NOT NULL,
    price_before NUMERIC(78, 0),
    price_after NUMERIC(78, 0),
    nonce BYTEA NOT NULL,
    bet_hash BYTEA NOT NULL,
    idem_hash BYTEA NOT NULL,
    builder BYTEA,
    ref BYTEA,
    refund_reason SMALLINT,
    status SMALLINT NOT NULL,
    staked_block BIGINT NOT NULL,
    staked_log_index INTEGER NOT NULL,
    staked_at BIGINT NOT NULL,
    staked_tx BYTEA NOT NULL,
    paid_amount NUMERIC(78, 0) NOT NULL,
    paid_block BIGINT,
    paid_at BIGINT,
    paid_tx BYTEA,
    failed_payouts INTEGER NOT NULL,
    failed_tx BYTEA,
    CONSTRAINT pk_agent_stake PRIMARY KEY (stake_id),
    CONSTRAINT ck_agent_stake_status_is_known CHECK (status IN (1, 2, 3, 4)),
    CONSTRAINT ck_agent_stake_paid_has_a_transaction CHECK ((status IN (3, 4)) = (paid_tx IS NOT NULL))
);
CREATE INDEX ix_agent_stake_bet_hash ON agent_stake (bet_hash);
CREATE UNIQUE INDEX ix_agent_stake_market_id_ordinal ON agent_stake (market_id, ordinal);
CREATE INDEX ix_agent_stake_nonce ON agent_stake (wallet, nonce);
CREATE INDEX ix_agent_stake_staked_at ON agent_stake (staked_at);
CREATE INDEX ix_agent_stake_wallet ON agent_stake (wallet, staked_block);

CREATE TABLE agent_total (
    feed BYTEA NOT NULL,
    markets BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    stakes BIGINT NOT NULL,
    staked NUMERIC(78, 0) NOT NULL,
    paid_out NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_agent_total PRIMARY KEY (feed)
);

CREATE TABLE agent_trade (
    wallet BYTEA NOT NULL,
    idem_hash BYTEA NOT NULL,
    market_id BYTEA NOT NULL,
    outcome SMALLINT NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    builder BYTEA,
    bet_hash BYTEA NOT NULL,
    nonce BYTEA NOT NULL,
    attempt INTEGER DEFAULT '1' NOT NULL,
    intent_id BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agent_trade PRIMARY KEY (wallet, idem_hash),
    CONSTRAINT ck_agent_trade_attempts_count_from_one CHECK (attempt >= 1)
);
CREATE INDEX ix_agent_trade_bet_hash ON agent_trade (bet_hash);
CREATE INDEX ix_agent_trade_intent_id ON agent_trade (intent_id);

CREATE TABLE agent_venue (
    chain_id BIGINT NOT NULL,
    stakes_paused BOOLEAN NOT NULL,
    fees_swept NUMERIC(78, 0) NOT NULL,
    fee_bps INTEGER,
    min_weight BIGINT,
    max_weight BIGINT,
    dispute_window BIGINT,
    void_delay BIGINT,
    CONSTRAINT pk_agent_venue PRIMARY KEY (chain_id)
);

CREATE TABLE agent_webhook (
    id TEXT NOT NULL,
    wallet BYTEA NOT NULL,
    trade_id BYTEA,
    url TEXT NOT NULL,
    status TEXT NOT NULL,
    secret TEXT,
    challenge TEXT,
    next_seq BIGINT DEFAULT '0' NOT NULL,
    attempts INTEGER DEFAULT '0' NOT NULL,
    attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    slow_until TIMESTAMP WITH TIME ZONE,
    failing_since TIMESTAMP WITH TIME ZONE,
    last_error TEXT,
    verify_until TIMESTAMP WITH TIME ZONE,
    lease UUID,
    lease_until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agent_webhook PRIMARY KEY (id),
    CONSTRAINT ck_agent_webhook_status_is_known CHECK (status IN ('pending_verification', 'active', 'disabled')),
    CONSTRAINT ck_agent_webhook_a_callback_has_no_secret CHECK ((trade_id IS NULL) = (secret IS NOT NULL)),
    CONSTRAINT ck_agent_webhook_a_lease_ends CHECK ((lease IS NULL) = (lease_until IS NULL))
);
CREATE INDEX ix_agent_webhook_attempt_at ON agent_webhook (attempt_at) WHERE status <> 'disabled';
CREATE INDEX ix_agent_webhook_wallet ON agent_webhook (wallet);
CREATE UNIQUE INDEX uq_agent_webhook_callback ON agent_webhook (trade_id, url) WHERE trade_id IS NOT NULL;
CREATE UNIQUE INDEX uq_agent_webhook_url ON agent_webhook (wallet, url) WHERE trade_id IS NULL;

CREATE TABLE agent_webhook_message (
    wallet BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agent_webhook_message PRIMARY KEY (wallet, digest)
);

CREATE TABLE chain_audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    chain_id BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    began_at TIMESTAMP WITH TIME ZONE NOT NULL,
    first_block BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    block_hash BYTEA NOT NULL,
    compared BIGINT NOT NULL,
    mismatches BIGINT NOT NULL,
    detail JSONB NOT NULL,
    CONSTRAINT pk_chain_audit PRIMARY KEY (id)
);
CREATE INDEX ix_chain_audit_chain_id ON chain_audit (chain_id, id);

CREATE TABLE chain_block (
    chain_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    timestamp BIGINT NOT NULL,
    l1_block_number BIGINT NOT NULL,
    CONSTRAINT pk_chain_block PRIMARY KEY (chain_id, number)
);

CREATE TABLE chain_cursor (
    chain_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    start_block BIGINT NOT NULL,
    number BIGINT NOT NULL,
    hash BYTEA,
    block_time BIGINT,
    l1_block_number BIGINT,
    head_number BIGINT,
    head_time BIGINT,
    head_seen_at TIMESTAMP WITH TIME ZONE,
    finalized_number BIGINT,
    state TEXT DEFAULT 'backfill' NOT NULL,
    problem TEXT,
    sources JSONB NOT NULL,
    summed BOOLEAN DEFAULT false NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_chain_cursor PRIMARY KEY (chain_id),
    CONSTRAINT ck_chain_cursor_state_is_known CHECK (state IN ('backfill', 'tail', 'halted')),
    CONSTRAINT ck_chain_cursor_a_halt_says_why CHECK ((state = 'halted') = (problem IS NOT NULL)),
    CONSTRAINT ck_chain_cursor_not_before_the_start CHECK (number >= start_block - 1),
    CONSTRAINT ck_chain_cursor_a_block_has_a_hash CHECK ((hash IS NULL) = (number = start_block - 1))
);

CREATE TABLE chain_log (
    chain_id BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    tx_hash BYTEA NOT NULL,
    address BYTEA NOT NULL,
    topics BYTEA NOT NULL,
    data BYTEA NOT NULL,
    entity BYTEA,
    CONSTRAINT pk_chain_log PRIMARY KEY (chain_id, block_number, log_index)
)
 PARTITION BY RANGE (chain_id, block_number);
CREATE INDEX ix_chain_log_entity ON chain_log (chain_id, entity) WHERE entity IS NOT NULL;

CREATE TABLE chain_reorg (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    chain_id BIGINT NOT NULL,
    from_number BIGINT NOT NULL,
    from_hash BYTEA NOT NULL,
    ancestor_number BIGINT NOT NULL,
    removed_logs INTEGER NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_chain_reorg PRIMARY KEY (id),
    CONSTRAINT ck_chain_reorg_goes_back CHECK (from_number > ancestor_number)
);

CREATE TABLE cup_account (
    account TEXT NOT NULL,
    balance_cents BIGINT DEFAULT '0' NOT NULL,
    opened_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_account PRIMARY KEY (account),
    CONSTRAINT ck_cup_account_account_is_known CHECK (account ~ '^(mint|(wallet|market|round):.+)$'),
    CONSTRAINT ck_cup_account_balance_is_not_negative CHECK (balance_cents >= 0)
);

CREATE TABLE cup_board (
    period TEXT NOT NULL,
    changes BIGINT NOT NULL,
    CONSTRAINT pk_cup_board PRIMARY KEY (period)
);

CREATE TABLE cup_enrolment (
    wallet TEXT NOT NULL,
    note TEXT DEFAULT '' NOT NULL,
    issued_at TEXT NOT NULL,
    signature BYTEA NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_enrolment PRIMARY KEY (wallet),
    CONSTRAINT ck_cup_enrolment_note_is_short CHECK (char_length(note) <= 280)
);

CREATE TABLE cup_house_wallet (
    wallet TEXT NOT NULL,
    fleet TEXT NOT NULL,
    CONSTRAINT pk_cup_house_wallet PRIMARY KEY (wallet),
    CONSTRAINT ck_cup_house_wallet_wallet_is_an_address CHECK (wallet ~ '^0x[0-9a-f]{40}$')
);

CREATE TABLE cup_market (
    slug TEXT NOT NULL,
    market_key BYTEA NOT NULL,
    market_id TEXT NOT NULL,
    kind SMALLINT NOT NULL,
    question TEXT NOT NULL,
    short_title TEXT NOT NULL,
    token_symbol TEXT NOT NULL,
    outcomes JSONB NOT NULL,
    weights_cents BIGINT[] NOT NULL,
    net_cents BIGINT[] NOT NULL,
    shares_cents BIGINT[] NOT NULL,
    trades INTEGER DEFAULT '0' NOT NULL,
    opens_at TIMESTAMP WITH TIME ZONE NOT NULL,
    closes_at TIMESTAMP WITH TIME ZONE NOT NULL,
    start_at TIMESTAMP WITH TIME ZONE,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    status TEXT DEFAULT 'open' NOT NULL,
    winner SMALLINT,
    settled_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_cup_market PRIMARY KEY (slug),
    CONSTRAINT ck_cup_market_status_is_known CHECK (status IN ('open', 'resolved', 'void')),
    CONSTRAINT ck_cup_market_resolved_has_a_winner CHECK ((status = 'resolved') = (winner IS NOT NULL)),
    CONSTRAINT ck_cup_market_settled_once CHECK ((status = 'open') = (settled_at IS NULL)),
    CONSTRAINT ck_cup_market_every_outcome_weighs CHECK (0 < ALL (weights_cents)),
    CONSTRAINT ck_cup_market_a_book_of_its_outcomes CHECK (cardinality(net_cents) = jsonb_array_length(outcomes) AND cardinality(shares_cents) = cardinality(net_cents) AND cardinality(weights_cents) = cardinality(net_cents)),
    CONSTRAINT ck_cup_market_trades_end_before_what_decides CHECK (opens_at < closes_at AND closes_at < COALESCE(start_at, ends_at) AND COALESCE(start_at, ends_at) <= ends_at),
    CONSTRAINT uq_cup_market_market_key UNIQUE (market_key),
    CONSTRAINT uq_cup_market_market_id UNIQUE (market_id)
);
CREATE INDEX ix_cup_market_open ON cup_market (closes_at) WHERE status = 'open';

CREATE TABLE cup_round (
    round_no BIGINT NOT NULL,
    seed BYTEA NOT NULL,
    commitment BYTEA NOT NULL,
    opens_at TIMESTAMP WITH TIME ZONE NOT NULL,
    closes_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    chain_id BIGINT NOT NULL,
    head_number BIGINT NOT NULL,
    beacon_after BIGINT NOT NULL,
    beacon_number BIGINT,
    beacon_hash BYTEA,
    pocket SMALLINT,
    settled_at TIMESTAMP WITH TIME ZONE,
    bets_hash BYTEA,
    CONSTRAINT pk_cup_round PRIMARY KEY (round_no),
    CONSTRAINT ck_cup_round_commits_to_its_seed CHECK (commitment = sha256(seed)),
    CONSTRAINT ck_cup_round_times_are_in_order CHECK (opens_at < closes_at AND closes_at <= ends_at),
    CONSTRAINT ck_cup_round_pocket_is_on_the_wheel CHECK (pocket BETWEEN 0 AND 36),
    CONSTRAINT ck_cup_round_settled_with_its_result CHECK (num_nonnulls(beacon_number, beacon_hash, pocket, settled_at) IN (0, 4)),
    CONSTRAINT ck_cup_round_settled_with_its_bets CHECK (settled_at IS NULL OR bets_hash IS NOT NULL)
);
CREATE UNIQUE INDEX uq_cup_round_live ON cup_round (chain_id) WHERE settled_at IS NULL;

CREATE TABLE cup_score (
    period TEXT NOT NULL,
    wallet TEXT NOT NULL,
    debit_cents BIGINT NOT NULL,
    reached_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_cup_score PRIMARY KEY (period, wallet),
    CONSTRAINT ck_cup_score_period_is_known CHECK (period ~ '^(all|[0-9]{4}-W[0-9]{2})$'),
    CONSTRAINT ck_cup_score_wallet_is_an_address CHECK (wallet ~ '^0x[0-9a-f]{40}$')
);
CREATE INDEX ix_cup_score_board ON cup_score (period, debit_cents, reached_at, wallet);

CREATE TABLE cup_transaction (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_transaction PRIMARY KEY (id),
    CONSTRAINT ck_cup_transaction_kind_is_known CHECK (kind IN ('claim', 'trade', 'bet', 'market', 'round')),
    CONSTRAINT ck_cup_transaction_key_names_its_kind CHECK (starts_with(key, kind || ':')),
    CONSTRAINT uq_cup_transaction_key UNIQUE (key)
);

CREATE TABLE daemon_heartbeat (
    daemon TEXT NOT NULL,
    instance TEXT NOT NULL,
    pid INTEGER NOT NULL,
    is_leader BOOLEAN NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    detail JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_daemon_heartbeat PRIMARY KEY (daemon, instance)
);

CREATE TABLE keeper_confirmation (
    chain_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    what TEXT NOT NULL,
    since BIGINT NOT NULL,
    CONSTRAINT pk_keeper_confirmation PRIMARY KEY (chain_id, subject)
);

CREATE TABLE keeper_job (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job TEXT NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    runner TEXT,
    report JSONB,
    CONSTRAINT pk_keeper_job PRIMARY KEY (id),
    CONSTRAINT ck_keeper_job_job_is_a_word CHECK (job ~ '^[a-z][a-z-]{0,31}$'),
    CONSTRAINT ck_keeper_job_started_has_a_runner CHECK ((started_at IS NULL) = (runner IS NULL)),
    CONSTRAINT ck_keeper_job_started_before_finished CHECK (finished_at IS NULL OR started_at IS NOT NULL),
    CONSTRAINT ck_keeper_job_finished_with_a_report CHECK ((finished_at IS NULL) = (report IS NULL))
);
CREATE UNIQUE INDEX uq_keeper_job_waiting ON keeper_job (job) WHERE started_at IS NULL;

CREATE TABLE keeper_run (
    job TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ok BOOLEAN NOT NULL,
    acted_at TIMESTAMP WITH TIME ZONE,
    every_seconds DOUBLE PRECISION,
    report JSONB NOT NULL,
    CONSTRAINT pk_keeper_run PRIMARY KEY (job)
);

CREATE TABLE operator_switch (
    name TEXT NOT NULL,
    is_on BOOLEAN NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_operator_switch PRIMARY KEY (name),
    CONSTRAINT ck_operator_switch_name_is_a_word CHECK (name ~ '^[a-z][a-z_]{1,63}$')
);

CREATE TABLE oracle_measure (
    chain_id BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    feed BYTEA NOT NULL,
    round_id NUMERIC(78, 0) NOT NULL,
    quality SMALLINT NOT NULL,
    start_cumulatives BIGINT[] NOT NULL,
    end_cumulatives BIGINT[] NOT NULL,
    liquidity NUMERIC(78, 0)[] NOT NULL,
    quiet BIGINT[] NOT NULL,
    CONSTRAINT pk_oracle_measure PRIMARY KEY (chain_id, block_number, log_index)
);
CREATE UNIQUE INDEX ix_oracle_measure_feed ON oracle_measure (chain_id, feed, round_id);

CREATE TABLE oracle_round (
    chain_id BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    feed BYTEA NOT NULL,
    round_id NUMERIC(78, 0) NOT NULL,
    answer NUMERIC(78, 0) NOT NULL,
    updated_at BIGINT NOT NULL,
    at BIGINT NOT NULL,
    tx BYTEA NOT NULL,
    CONSTRAINT pk_oracle_round PRIMARY KEY (chain_id, block_number, log_index)
);
CREATE INDEX ix_oracle_round_feed ON oracle_round (chain_id, feed, updated_at);

CREATE TABLE outbox_claim (
    intent_id BIGINT NOT NULL,
    lane_id INTEGER NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_outbox_claim PRIMARY KEY (intent_id)
);

CREATE TABLE outbox_lane (
    id INTEGER GENERATED ALWAYS AS IDENTITY,
    chain_id BIGINT NOT NULL,
    address BYTEA NOT NULL,
    groups TEXT[] NOT NULL,
    next_nonce BIGINT,
    epoch BIGINT DEFAULT '0' NOT NULL,
    holder UUID,
    holder_name TEXT,
    lease_until TIMESTAMP WITH TIME ZONE,
    status TEXT DEFAULT 'starting' NOT NULL,
    status_detail TEXT DEFAULT '' NOT NULL,
    balance_wei NUMERIC(78, 0),
    CONSTRAINT pk_outbox_lane PRIMARY KEY (id),
    CONSTRAINT uq_outbox_lane_chain_id_address UNIQUE (chain_id, address),
    CONSTRAINT ck_outbox_lane_nonce_is_a_count CHECK (next_nonce >= 0),
    CONSTRAINT ck_outbox_lane_holder_has_a_lease CHECK ((holder IS NULL) = (lease_until IS NULL))
);

CREATE TABLE outbox_pending_notice (
    intent_id BIGINT NOT NULL,
    tx_hash BYTEA NOT NULL,
    tries SMALLINT DEFAULT '0' NOT NULL,
    retry_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    problem TEXT,
    CONSTRAINT pk_outbox_pending_notice PRIMARY KEY (intent_id)
);

CREATE TABLE pauser_act (
    chain_id BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    account BYTEA NOT NULL,
    paused BOOLEAN NOT NULL,
    at BIGINT NOT NULL,
    tx BYTEA NOT NULL,
    CONSTRAINT pk_pauser_act PRIMARY KEY (chain_id, block_number, log_index)
);

CREATE TABLE pauser_guardian (
    chain_id BIGINT NOT NULL,
    account BYTEA NOT NULL,
    allowed BOOLEAN NOT NULL,
    CONSTRAINT pk_pauser_guardian PRIMARY KEY (chain_id, account)
);

CREATE TABLE relay_bet (
    chain_id BIGINT NOT NULL,
    signer BYTEA NOT NULL,
    nonce BYTEA NOT NULL,
    market_id BIGINT NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    attempt INTEGER DEFAULT '1' NOT NULL,
    intent_id BIGINT NOT NULL,
    asked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    confirmation_sent_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT pk_relay_bet PRIMARY KEY (chain_id, signer, nonce),
    CONSTRAINT ck_relay_bet_attempts_count_from_one CHECK (attempt >= 1)
);

CREATE TABLE stock_betting (
    id SMALLINT NOT NULL,
    wallets BIGINT NOT NULL,
    bets BIGINT NOT NULL,
    offered NUMERIC(78, 0) NOT NULL,
    payout NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_stock_betting PRIMARY KEY (id)
);

CREATE TABLE stock_bettor (
    entered_by BYTEA NOT NULL,
    bets BIGINT NOT NULL,
    offered NUMERIC(78, 0) NOT NULL,
    payout NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_stock_bettor PRIMARY KEY (entered_by)
);

CREATE TABLE stock_fee_sweep (
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    amount NUMERIC(78, 0) NOT NULL,
    at BIGINT NOT NULL,
    tx BYTEA NOT NULL,
    CONSTRAINT pk_stock_fee_sweep PRIMARY KEY (block_number, log_index)
);

CREATE TABLE stock_feed (
    feed BYTEA NOT NULL,
    stock_token BYTEA NOT NULL,
    ticker TEXT NOT NULL,
    max_strike_age BIGINT NOT NULL,
    max_final_age BIGINT NOT NULL,
    side_cap NUMERIC(78, 0) NOT NULL,
    allowed BOOLEAN NOT NULL,
    CONSTRAINT pk_stock_feed PRIMARY KEY (feed)
);

CREATE TABLE stock_holding (
    owner BYTEA NOT NULL,
    market_id BIGINT NOT NULL,
    outcome SMALLINT NOT NULL,
    positions INTEGER NOT NULL,
    offered NUMERIC(78, 0) NOT NULL,
    pending NUMERIC(78, 0) NOT NULL,
    refused NUMERIC(78, 0) NOT NULL,
    weight NUMERIC(78, 0) NOT NULL,
    due NUMERIC(78, 0) NOT NULL,
    payout NUMERIC(78, 0) NOT NULL,
    refund NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_stock_holding PRIMARY KEY (owner, market_id, outcome)
);

CREATE TABLE stock_market (
    market_id BIGINT NOT NULL,
    opener BYTEA NOT NULL,
    resolver BYTEA NOT NULL,
    freeze_time BIGINT NOT NULL,
    void_delay BIGINT NOT NULL,
    fee_bps INTEGER NOT NULL,
    kappa BIGINT NOT NULL,
    seed_per_leg NUMERIC(78, 0) NOT NULL,
    min_entry NUMERIC(78, 0) NOT NULL,
    max_entry NUMERIC(78, 0) NOT NULL,
    side_cap NUMERIC(78, 0) NOT NULL,
    principal_up NUMERIC(78, 0) NOT NULL,
    principal_down NUMERIC(78, 0) NOT NULL,
    acc_up NUMERIC(78, 0) NOT NULL,
    acc_down NUMERIC(78, 0) NOT NULL,
    pending_vintage BIGINT,
    pending_up NUMERIC(78, 0) NOT NULL,
    pending_down NUMERIC(78, 0) NOT NULL,
    winner SMALLINT,
    voided BOOLEAN NOT NULL,
    paid_principal NUMERIC(78, 0) NOT NULL,
    paid NUMERIC(78, 0) NOT NULL,
    fees NUMERIC(78, 0) NOT NULL,
    refused NUMERIC(78, 0) NOT NULL,
    refunded NUMERIC(78, 0) NOT NULL,
    residue_claimed NUMERIC(78, 0) NOT NULL,
    positions INTEGER NOT NULL,
    vintages INTEGER NOT NULL,
    created_block BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_tx BYTEA NOT NULL,
    closed_block BIGINT,
    closed_at BIGINT,
    closed_tx BYTEA,
    residue_tx BYTEA,
    spec_id BYTEA,
    feed BYTEA,
    ticker TEXT,
    family SMALLINT,
    stock_token BYTEA,
    strike_time BIGINT,
    final_time BIGINT,
    max_strike_age BIGINT,
    max_final_age BIGINT,
    outcome SMALLINT,
    reason SMALLINT,
    strike_round NUMERIC(78, 0),
    strike_answer NUMERIC(78, 0),
    strike_round_at BIGINT,
    final_round NUMERIC(78, 0),
    final_answer NUMERIC(78, 0),
    final_round_at BIGINT,
    updated_block BIGINT NOT NULL,
    CONSTRAINT pk_stock_market PRIMARY KEY (market_id),
    CONSTRAINT ck_stock_market_winner_is_a_side CHECK (winner IN (0, 1)),
    CONSTRAINT ck_stock_market_void_has_no_winner CHECK (NOT (voided AND winner IS NOT NULL)),
    CONSTRAINT ck_stock_market_closed_once CHECK ((closed_tx IS NOT NULL) = (voided OR winner IS NOT NULL)),
    CONSTRAINT ck_stock_market_pending_has_a_block CHECK (pending_vintage IS NOT NULL OR (pending_up = 0 AND pending_down = 0))
);
CREATE INDEX ix_stock_market_closed ON stock_market (closed_at, market_id) WHERE closed_tx IS NOT NULL;
CREATE INDEX ix_stock_market_drill ON stock_market (market_id) WHERE family = 2;
CREATE INDEX ix_stock_market_dusty ON stock_market (market_id) WHERE residue_tx IS NULL AND winner IS NOT NULL AND principal_up + principal_down > paid + fees AND paid_principal >= CASE WHEN voided THEN principal_up + principal_down WHEN winner = 0 THEN principal_up ELSE principal_down END;
CREATE INDEX ix_stock_market_open ON stock_market (market_id) WHERE closed_tx IS NULL;
CREATE INDEX ix_stock_market_owing ON stock_market (market_id) WHERE pending_vintage IS NOT NULL OR refused > refunded OR (closed_tx IS NOT NULL AND paid_principal < CASE WHEN voided THEN principal_up + principal_down WHEN winner = 0 THEN principal_up ELSE principal_down END);
CREATE INDEX ix_stock_market_unpaid ON stock_market (market_id) WHERE closed_tx IS NOT NULL AND paid_principal < CASE WHEN voided THEN principal_up + principal_down WHEN winner = 0 THEN principal_up ELSE principal_down END;
CREATE INDEX ix_stock_market_updated ON stock_market (updated_block);

CREATE TABLE stock_opener (
    opener BYTEA NOT NULL,
    allowed BOOLEAN NOT NULL,
    CONSTRAINT pk_stock_opener PRIMARY KEY (opener)
);

CREATE TABLE stock_position (
    position_id BIGINT NOT NULL,
    market_id BIGINT NOT NULL,
    ordinal INTEGER NOT NULL,
    owner BYTEA NOT NULL,
    entered_by BYTEA NOT NULL,
    outcome SMALLINT NOT NULL,
    offered NUMERIC(78, 0) NOT NULL,
    vintage BIGINT NOT NULL,
    offered_before NUMERIC(78, 0) NOT NULL,
    claimed BOOLEAN NOT NULL,
    refunded BOOLEAN NOT NULL,
    payout NUMERIC(78, 0) NOT NULL,
    fee NUMERIC(78, 0) NOT NULL,
    refund NUMERIC(78, 0) NOT NULL,
    entered_block BIGINT NOT NULL,
    entered_at BIGINT NOT NULL,
    entry_tx BYTEA NOT NULL,
    payout_at BIGINT,
    payout_tx BYTEA,
    failed_deliveries INTEGER NOT NULL,
    failed_tx BYTEA,
    CONSTRAINT pk_stock_position PRIMARY KEY (position_id),
    CONSTRAINT ck_stock_position_outcome_is_a_side CHECK (outcome IN (0, 1))
)
 WITH (fillfactor = 50);
CREATE INDEX ix_stock_position_bet ON stock_position (entered_at, position_id) WHERE vintage > 0;
CREATE UNIQUE INDEX ix_stock_position_market ON stock_position (market_id, vintage, ordinal);
CREATE INDEX ix_stock_position_owner ON stock_position (owner, entered_block, position_id);

CREATE TABLE stock_total (
    family SMALLINT NOT NULL,
    markets BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    resolved BIGINT NOT NULL,
    seeded NUMERIC(78, 0) NOT NULL,
    principal NUMERIC(78, 0) NOT NULL,
    fees NUMERIC(78, 0) NOT NULL,
    paid NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_stock_total PRIMARY KEY (family)
);

CREATE TABLE stock_venue (
    chain_id BIGINT NOT NULL,
    entries_paused BOOLEAN NOT NULL,
    fees_swept NUMERIC(78, 0) NOT NULL,
    CONSTRAINT pk_stock_venue PRIMARY KEY (chain_id)
);

CREATE TABLE stock_vintage (
    market_id BIGINT NOT NULL,
    vintage BIGINT NOT NULL,
    offered_up NUMERIC(78, 0) NOT NULL,
    offered_down NUMERIC(78, 0) NOT NULL,
    accepted_up NUMERIC(78, 0),
    accepted_down NUMERIC(78, 0),
    entry_acc_up NUMERIC(78, 0),
    entry_acc_down NUMERIC(78, 0),
    CONSTRAINT pk_stock_vintage PRIMARY KEY (market_id, vintage)
);

CREATE TABLE token_authorization (
    chain_id BIGINT NOT NULL,
    authorizer BYTEA NOT NULL,
    nonce BYTEA NOT NULL,
    token BYTEA NOT NULL,
    state TEXT NOT NULL,
    recipient BYTEA,
    value NUMERIC(78, 0),
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    at BIGINT NOT NULL,
    tx BYTEA NOT NULL,
    CONSTRAINT pk_token_authorization PRIMARY KEY (chain_id, authorizer, nonce),
    CONSTRAINT ck_token_authorization_state_is_known CHECK (state IN ('paid', 'unpaired', 'canceled')),
    CONSTRAINT ck_token_authorization_paid_has_a_value CHECK ((state = 'paid') = (value IS NOT NULL)),
    CONSTRAINT ck_token_authorization_paid_has_a_recipient CHECK ((state = 'paid') = (recipient IS NOT NULL))
);
CREATE INDEX ix_token_authorization_block_number ON token_authorization (chain_id, block_number, log_index);

CREATE TABLE cup_bet (
    round_no BIGINT NOT NULL,
    wallet TEXT NOT NULL,
    bet_key TEXT NOT NULL,
    transaction_id BIGINT NOT NULL,
    stake_cents BIGINT NOT NULL,
    issued_at TEXT NOT NULL,
    signature BYTEA NOT NULL,
    balance_cents BIGINT NOT NULL,
    status TEXT DEFAULT 'open' NOT NULL,
    paid_cents BIGINT DEFAULT '0' NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_bet PRIMARY KEY (round_no, wallet, bet_key),
    CONSTRAINT ck_cup_bet_status_is_known CHECK (status IN ('open', 'won', 'lost', 'refunded')),
    CONSTRAINT ck_cup_bet_amounts_are_positive CHECK (stake_cents > 0 AND paid_cents >= 0),
    CONSTRAINT ck_cup_bet_paid_has_a_reason CHECK (status IN ('won', 'refunded') OR paid_cents = 0),
    CONSTRAINT fk_cup_bet_round_no FOREIGN KEY(round_no) REFERENCES cup_round (round_no),
    CONSTRAINT uq_cup_bet_transaction_id UNIQUE (transaction_id),
    CONSTRAINT fk_cup_bet_transaction_id FOREIGN KEY(transaction_id) REFERENCES cup_transaction (id)
)
 WITH (fillfactor = 45);
CREATE INDEX ix_cup_bet_wallet ON cup_bet (wallet, round_no);

CREATE TABLE cup_entry (
    transaction_id BIGINT NOT NULL,
    account TEXT NOT NULL,
    amount_cents BIGINT NOT NULL,
    CONSTRAINT pk_cup_entry PRIMARY KEY (transaction_id, account),
    CONSTRAINT ck_cup_entry_moves_something CHECK (amount_cents <> 0),
    CONSTRAINT fk_cup_entry_transaction_id FOREIGN KEY(transaction_id) REFERENCES cup_transaction (id),
    CONSTRAINT fk_cup_entry_account FOREIGN KEY(account) REFERENCES cup_account (account)
);
CREATE INDEX ix_cup_entry_account ON cup_entry (account, transaction_id);

CREATE TABLE cup_position (
    wallet TEXT NOT NULL,
    slug TEXT NOT NULL,
    outcome SMALLINT NOT NULL,
    cost_cents BIGINT NOT NULL,
    shares_cents BIGINT NOT NULL,
    status TEXT DEFAULT 'open' NOT NULL,
    paid_cents BIGINT DEFAULT '0' NOT NULL,
    opened_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_position PRIMARY KEY (wallet, slug, outcome),
    CONSTRAINT ck_cup_position_status_is_known CHECK (status IN ('open', 'won', 'lost', 'refunded')),
    CONSTRAINT ck_cup_position_amounts_are_positive CHECK (cost_cents > 0 AND shares_cents > 0 AND paid_cents >= 0),
    CONSTRAINT ck_cup_position_paid_has_a_reason CHECK (status IN ('won', 'refunded') OR paid_cents = 0),
    CONSTRAINT fk_cup_position_slug FOREIGN KEY(slug) REFERENCES cup_market (slug)
);
CREATE INDEX ix_cup_position_slug ON cup_position (slug);

CREATE TABLE cup_trade (
    trade_id TEXT NOT NULL,
    transaction_id BIGINT NOT NULL,
    wallet TEXT NOT NULL,
    slug TEXT NOT NULL,
    outcome SMALLINT NOT NULL,
    size_cents BIGINT NOT NULL,
    shares_cents BIGINT NOT NULL,
    issued_at TEXT NOT NULL,
    signature BYTEA NOT NULL,
    balance_cents BIGINT NOT NULL,
    projected_cents BIGINT NOT NULL,
    pool_cents BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_cup_trade PRIMARY KEY (trade_id),
    CONSTRAINT ck_cup_trade_amounts_are_positive CHECK (size_cents > 0 AND shares_cents >= size_cents),
    CONSTRAINT uq_cup_trade_transaction_id UNIQUE (transaction_id),
    CONSTRAINT fk_cup_trade_transaction_id FOREIGN KEY(transaction_id) REFERENCES cup_transaction (id),
    CONSTRAINT fk_cup_trade_slug FOREIGN KEY(slug) REFERENCES cup_market (slug)
);
CREATE INDEX ix_cup_trade_slug ON cup_trade (slug, transaction_id);
CREATE INDEX ix_cup_trade_wallet ON cup_trade (wallet, at);

CREATE TABLE outbox_intent (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    key TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    chain_id BIGINT NOT NULL,
    lane_group TEXT NOT NULL,
    kind TEXT NOT NULL,
    to_address BYTEA NOT NULL,
    data BYTEA NOT NULL,
    value_wei NUMERIC(78, 0) NOT NULL,
    replay_safe BOOLEAN NOT NULL,
    priority SMALLINT NOT NULL,
    not_after BIGINT,
    depends_on BIGINT,
    payer BYTEA,
    payer_code BYTEA,
    state TEXT DEFAULT 'queued' NOT NULL,
    outcome TEXT,
    reason_code TEXT,
    reason TEXT,
    lane_id INTEGER,
    nonce BIGINT,
    tx_hash BYTEA,
    block_number BIGINT,
    block_hash BYTEA,
    gas_used BIGINT,
    fee_wei NUMERIC(78, 0),
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    state_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    mined_at TIMESTAMP WITH TIME ZONE,
    is_thinned BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT pk_outbox_intent PRIMARY KEY (id),
    CONSTRAINT ck_outbox_intent_state_is_known CHECK (state IN ('queued', 'signed', 'sent', 'mined', 'final', 'failed', 'replaced')),
    CONSTRAINT ck_outbox_intent_outcome_is_known CHECK (outcome IN ('succeeded', 'reverted', 'cancelled')),
    CONSTRAINT ck_outbox_intent_queued_has_no_nonce CHECK (state <> 'queued' OR nonce IS NULL),
    CONSTRAINT ck_outbox_intent_beyond_queued_has_a_transaction CHECK (state NOT IN ('signed', 'sent', 'mined', 'final', 'replaced') OR (lane_id IS NOT NULL AND nonce IS NOT NULL AND tx_hash IS NOT NULL)),
    CONSTRAINT ck_outbox_intent_mined_has_a_block CHECK (state NOT IN ('mined', 'final', 'replaced') OR (outcome IS NOT NULL AND block_number IS NOT NULL AND block_hash IS NOT NULL)),
    CONSTRAINT ck_outbox_intent_failed_says_why CHECK (state <> 'failed' OR reason IS NOT NULL),
    CONSTRAINT ck_outbox_intent_depends_on_an_earlier_one CHECK (depends_on < id),
    CONSTRAINT uq_outbox_intent_key UNIQUE (key),
    CONSTRAINT fk_outbox_intent_depends_on FOREIGN KEY(depends_on) REFERENCES outbox_intent (id),
    CONSTRAINT fk_outbox_intent_lane_id FOREIGN KEY(lane_id) REFERENCES outbox_lane (id)
);
CREATE INDEX ix_outbox_intent_depends_on ON outbox_intent (depends_on) WHERE depends_on IS NOT NULL;
CREATE INDEX ix_outbox_intent_ended ON outbox_intent (chain_id, state_at) WHERE state IN ('final', 'failed', 'replaced') AND NOT is_thinned;
CREATE INDEX ix_outbox_intent_live ON outbox_intent (lane_id) WHERE state IN ('signed', 'sent', 'mined');
CREATE INDEX ix_outbox_intent_payer ON outbox_intent (payer, mined_at) WHERE payer IS NOT NULL AND mined_at IS NOT NULL;
CREATE INDEX ix_outbox_intent_payer_code ON outbox_intent (payer_code, mined_at) WHERE payer_code IS NOT NULL AND mined_at IS NOT NULL;
CREATE INDEX ix_outbox_intent_queue ON outbox_intent (chain_id, lane_group, priority DESC, id) WHERE state = 'queued';
CREATE INDEX ix_outbox_intent_spending ON outbox_intent (lane_id, mined_at) WHERE mined_at IS NOT NULL;
CREATE UNIQUE INDEX uq_outbox_intent_lane_nonce ON outbox_intent (lane_id, nonce);

CREATE TABLE keeper_attempt (
    chain_id BIGINT NOT NULL,
    subject TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    intent_id BIGINT NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_keeper_attempt PRIMARY KEY (chain_id, subject),
    CONSTRAINT ck_keeper_attempt_asked_at_least_once CHECK (attempts > 0),
    CONSTRAINT ck_keeper_attempt_failed_before_the_latest CHECK (failures >= 0 AND failures < attempts),
    CONSTRAINT fk_keeper_attempt_intent_id FOREIGN KEY(intent_id) REFERENCES outbox_intent (id)
);
CREATE INDEX ix_keeper_attempt_intent_id ON keeper_attempt (intent_id);

CREATE TABLE outbox_history (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    intent_id BIGINT NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    tx_hash BYTEA,
    reason TEXT,
    at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pk_outbox_history PRIMARY KEY (id),
    CONSTRAINT fk_outbox_history_intent_id FOREIGN KEY(intent_id) REFERENCES outbox_intent (id)
);
CREATE INDEX ix_outbox_history_intent_id ON outbox_history (intent_id);

CREATE TABLE outbox_transaction (
    hash BYTEA NOT NULL,
    intent_id BIGINT NOT NULL,
    lane_id INTEGER NOT NULL,
    nonce BIGINT NOT NULL,
    is_cancel BOOLEAN NOT NULL,
    raw BYTEA NOT NULL,
    gas_limit BIGINT NOT NULL,
    max_fee_wei NUMERIC(78, 0) NOT NULL,
    max_priority_fee_wei NUMERIC(78, 0) NOT NULL,
    signed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_outbox_transaction PRIMARY KEY (hash),
    CONSTRAINT fk_outbox_transaction_intent_id FOREIGN KEY(intent_id) REFERENCES outbox_intent (id),
    CONSTRAINT fk_outbox_transaction_lane_id FOREIGN KEY(lane_id) REFERENCES outbox_lane (id)
);
CREATE INDEX ix_outbox_transaction_intent_id ON outbox_transaction (intent_id);
