"""The list of guards: those of the contracts from `tests/contracts/guards.py`, those of the daemons here."""

from __future__ import annotations

from tests.contracts import guards as contracts
from tests.guards.guard import Guard

DECISIONS = "tests/unit/test_relayer_decisions.py"
LIFE = "tests/integration/test_relayer_life.py"
PAYMENTS = "tests/integration/test_agent_payments.py"
FEED = "tests/integration/test_relayer_feed.py"
REPAIR = "tests/integration/test_relayer_repair.py"
SOURCES = "tests/unit/test_keeper_sources.py"
SETTLING = "tests/unit/test_keeper_settling.py"
TARGETS = "tests/unit/test_webhook_targets.py"
LINEAGE = "tests/unit/test_index_decisions.py"
CREDITING = "tests/unit/test_keeper_crediting.py"
DUE = "tests/unit/test_keeper_due.py"
CUP = "tests/unit/test_cup_pure.py"
GRID = "tests/unit/test_grid.py"
RECORDING = "tests/unit/test_keeper_recording.py"
AGENT_SETTLING = "tests/unit/test_keeper_agent_settling.py"
SERIES = "tests/unit/test_keeper_series.py"
POOL_LOGS = "tests/unit/test_pool_logs.py"
RENDER = "tests/unit/test_agent_render.py"
REQUESTS = "tests/unit/test_requests.py"
DEPLOYMENTS = "tests/unit/test_deployments.py"
EVENT_LOG = "tests/integration/test_agent_event_log.py::test_reorganizations_only_ever_add"
POOL_INDEX = "tests/integration/test_pool_feed_index.py"
POOL_SERVICE = "tests/integration/test_pool_feed_service.py"
POOL_VERIFY = "tests/integration/test_verify_pool_feed.py"

RELAYER = (
    Guard(
        "a lane signs although what is in flight may cost more than its key holds",
        "relayer/standing.py",
        "standing.balance_wei == 0 or standing.balance_wei < standing.worst_cost_wei",
        "standing.balance_wei == 0",
        (f"{DECISIONS}::test_lane_status",),
    ),
    Guard(
        "a lane goes on spending beyond its allowance for an hour",
        "relayer/standing.py",
        "if standing.spent_wei + standing.expected_wei >= standing.hourly_limit_wei:",
        "if standing.spent_wei >= standing.hourly_limit_wei:",
        (f"{DECISIONS}::test_lane_status",),
    ),
    Guard(
        "a lane signs while the base fee is above the cap, so that nothing it signs can be mined",
        "relayer/standing.py",
        "if standing.base_fee_wei > standing.fee_cap_wei:",
        "if False:",
        (f"{DECISIONS}::test_lane_status",),
    ),
    Guard(
        "more is in flight than a node keeps for one sender",
        "relayer/standing.py",
        "if standing.in_flight >= standing.max_in_flight:",
        "if standing.in_flight > standing.max_in_flight:",
        (f"{DECISIONS}::test_lane_status",),
    ),
    Guard(
        "a wallet whose transactions revert has us pay for as many as it likes",
        "relayer/payers.py",
        "        if wallet.excess >= WALLET_REVERTS_ALLOWED:\n",
        "        if False:\n",
        (f"{DECISIONS}::test_what_reverts_is_remembered_by_wallet_and_by_code",),
    ),
    Guard(
        "a wallet has hundreds on their way before the first of them reverts",
        "relayer/payers.py",
        "        if doubtful and wallet.excess + wallet.in_flight >= WALLET_REVERTS_ALLOWED:\n",
        "        if False:\n",
        (
            f"{DECISIONS}::test_what_reverts_is_remembered_by_wallet_and_by_code",
            f"{DECISIONS}::test_those_of_one_batch_are_counted",
        ),
    ),
    Guard(
        "a wallet has as many on their way as it may for each key that carries bets",
        "relayer/queries.py",
        "                    kind[key].in_flight += count\n",
        "                    pass\n",
        (f"{REPAIR}::test_what_any_lane_has_on_its_way_for_a_wallet_counts_for_every_lane",),
    ),
    Guard(
        "copies of one contract burn a few times each, without end",
        "relayer/payers.py",
        "        if not _is_proven(wallet) and alike.excess >= CODE_REVERTS_ALLOWED:\n",
        "        if False:\n",
        (f"{DECISIONS}::test_what_reverts_is_remembered_by_wallet_and_by_code",),
    ),
    Guard(
        "wallets with code burn a lane's whole stop-loss, and wallets without wait for the hour to end",
        "relayer/payers.py",
        "        if self.burnt_wei + worst_wei > self.allowance_wei:\n",
        "        if False:\n",
        (f"{DECISIONS}::test_wallets_with_code_have_an_allowance_of_their_own",),
    ),
    Guard(
        "a payment is taken in without saying whose it is, so that nothing it burns is remembered",
        "api/agent/trade/taking_in.py",
        "            payer=payment.payer,\n        )\n        try:\n",
        "        )\n        try:\n",
        (f"{PAYMENTS}::test_a_payer_with_code_burns_our_gas_a_few_times_and_no_more",),
    ),
    Guard(
        "a bet on a side that is full is sent and given back, as often as somebody likes",
        "api/stock/checks.py",
        "    if facts.room < least:\n",
        "    if False:\n",
        (
            "tests/integration/test_stock_relay.py::test_a_bet_that_its_side_has_no_room_for_is_refused_before_it_costs_gas",
        ),
    ),
    Guard(
        "one cancelled authorization has hours of logs read at every call, and pages the operator",
        "api/stock/landing.py",
        "        if by_then is True:\n",
        "        if False:\n",
        (
            "tests/integration/test_stock_relay.py::"
            "test_one_cancelled_authorization_asks_no_log_again_and_again_and_wakes_nobody",
        ),
    ),
    Guard(
        "a wallet has us send bets without end that share what room a block has, and come back",
        "api/stock/relay.py",
        "        if returned >= RETURNED_BETS:\n",
        "        if False:\n",
        (
            "tests/integration/test_stock_relay.py::test_a_wallet_whose_bets_come_back_whole_has_us_send_a_few_and_no_more",
        ),
    ),
    Guard(
        "ten bets are sent over one dollar, and we pay for the nine that revert",
        "api/funds.py",
        "        if promised + spend.amount > funds.amount:\n",
        "        if False:\n",
        (
            "tests/integration/test_stock_bets.py::test_what_is_on_its_way_is_not_promised_twice",
            "tests/integration/test_agent_taking_in.py::test_what_is_on_its_way_is_not_promised_twice",
        ),
    ),
    Guard(
        "a wallet's bets are asked for at once, and none sees what the others are promised",
        "api/funds.py",
        "        await connection.execute(lock, (wallet, chain_id))\n",
        "        _ = lock\n",
        (
            "tests/integration/test_stock_bets.py::test_what_is_on_its_way_is_not_promised_twice",
            "tests/integration/test_agent_taking_in.py::test_what_is_on_its_way_is_not_promised_twice",
        ),
    ),
    Guard(
        "a bet is sent over money that a block newer than its balance took, and we pay for its revert",
        "api/funds.py",
        " OR (i.outcome = 'succeeded' AND i.block_number > %%(block)s)",
        " OR (i.outcome = 'succeeded' AND i.block_number > %%(block)s AND false)",
        (
            "tests/integration/test_stock_bets.py::test_what_is_mined_above_the_block_of_the_balance_is_still_in_it",
            "tests/integration/test_agent_taking_in.py::test_what_is_mined_above_the_block_of_the_balance_is_still_in_it",
        ),
    ),
    Guard(
        "a key that sends strangers' bets settles, too, and both stand still when the bets have burnt its gas",
        "relayer/keys.py",
        "        if spec.chain in live and RELAY in spec.groups and len(spec.groups) > 1:\n",
        "        if False:\n",
        ("tests/unit/test_relayer_keys.py::test_on_a_live_chain_a_key_that_sends_bets_serves_nothing_else",),
    ),
    Guard(
        "a fee is raised above the operator's cap",
        "relayer/fees.py",
        "    if least.max_fee_wei > cap:\n        return None\n",
        "",
        (f"{DECISIONS}::test_bump", f"{DECISIONS}::test_a_bump_satisfies_every_node_and_stays_within_the_cap"),
    ),
    Guard(
        "a bet of a dollar is carried for nineteen dollars of gas",
        "relayer/policy.py",
        "        if self.bets_cap_wei is None or RELAY not in groups:\n",
        "        if True:\n",
        ("tests/unit/test_relayer_keys.py::test_a_bet_of_a_dollar_never_costs_us_a_dollar_of_gas",),
    ),
    Guard(
        "a replacement offers less than an eighth more, and every node refuses it",
        "relayer/fees.py",
        "return value + -(-value // 8) + (1 if value == 0 else 0)",
        "return value + value // 8",
        (f"{DECISIONS}::test_bump", f"{DECISIONS}::test_a_bump_satisfies_every_node_and_stays_within_the_cap"),
    ),
    Guard(
        "a nonce that nobody owns is left free, and nothing after it is ever mined",
        "relayer/nonces.py",
        "holes=tuple(nonce for nonce in gone if nonce not in done),",
        "holes=(),",
        (f"{DECISIONS}::test_reconcile",),
    ),
    Guard(
        "after a deep reorganization the nonce of an ended intent stays free",
        "relayer/nonces.py",
        "reopened=tuple(nonce for nonce in gone if nonce in done),",
        "reopened=(),",
        (f"{DECISIONS}::test_reconcile",),
    ),
    Guard(
        "an intent whose deadline has passed is sent",
        "relayer/preflight.py",
        "if candidate.not_after is not None and head.timestamp > candidate.not_after:",
        "if False:",
        (f"{DECISIONS}::test_refused_without_asking_a_node",),
    ),
    Guard(
        "a lane that cannot work refuses for its deadline what may have landed",
        "relayer/queries.py",
        "i.not_after < %(chain_time)s AND NOT EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id)",
        "i.not_after < %(chain_time)s",
        (f"{LIFE}::test_what_had_a_nonce_is_not_refused_by_a_lane_that_cannot_ask_whether_it_landed",),
    ),
    Guard(
        "an intent is sent although the one it depends on failed",
        "relayer/preflight.py",
        "if candidate.depends_on_state in (IntentState.FAILED, IntentState.REPLACED) or (",
        "if False and (",
        (f"{DECISIONS}::test_refused_without_asking_a_node",),
    ),
    Guard(
        "a transaction past its time stays in the queue and may land late",
        "relayer/transaction.py",
        "    if (late or transaction.doomed is not None) and not transaction.cancelling:\n"
        "        return NextStep.CANCEL\n",
        "",
        (f"{DECISIONS}::test_next_step",),
    ),
    Guard(
        "what may not pay more, and no node has any more, is never offered again",
        "relayer/replacing.py",
        "may_bump=False) is NextStep.RESEND",
        "may_bump=True) is NextStep.RESEND",
        (f"{REPAIR}::test_what_may_not_pay_more_is_offered_again_once_the_node_lost_it",),
    ),
    Guard(
        "a first URL that takes transactions and loses them stops all money, though there is a second",
        "relayer/sending.py",
        "self._offer(again, self._client.send_raw_everywhere)",
        "self._offer(again, self._client.send_raw_batch)",
        (
            "tests/faults/test_relayer_nodes.py"
            "::test_what_the_first_url_takes_and_loses_reaches_the_chain_through_the_second",
        ),
    ),
    Guard(
        "a process that was stopped for longer than its lease goes on writing",
        "relayer/lease.py",
        "        if not self.valid:\n",
        "        if False:\n",
        (f"{REPAIR}::test_a_holder_that_slept_through_a_takeover_can_write_and_send_nothing",),
    ),
    Guard(
        "a process that was stopped for longer than its lease offers what it had signed",
        "relayer/sending.py",
        "        self._lease.check()\n        fresh",
        "        fresh",
        (f"{REPAIR}::test_what_is_signed_is_not_offered_once_the_lease_ran_out",),
    ),
    Guard(
        "whoever held a lane before goes on signing for it while another holds it",
        "relayer/store.py",
        '"WHERE id = %s AND epoch = %s AND lease_until > clock_timestamp() FOR UPDATE",',
        '"WHERE id = %s AND %s > 0 FOR UPDATE",',
        (f"{REPAIR}::test_a_holder_that_slept_through_a_takeover_can_write_and_send_nothing",),
    ),
    Guard(
        "a group that is named twice for a key is served twice over in its lane",
        "relayer/keys.py",
        "groups_served += [group for group in key.groups if group not in groups_served]",
        "groups_served += list(key.groups)",
        ("tests/unit/test_relayer_keys.py::test_a_group_named_twice_for_a_key_is_served_once",),
    ),
    Guard(
        "a key named twice is given a lane for each, and they fight over its nonces",
        "relayer/keys.py",
        "    return [\n        LaneSpec(chain, chain_ids[chain], tuple(served), signers[address])\n"
        "        for (chain, address), served in groups.items()\n    ]",
        "    return [\n        LaneSpec(chain, chain_ids[chain], (each,), signers[address])\n"
        "        for (chain, address), served in groups.items()\n        for each in served\n    ]",
        ("tests/unit/test_relayer_keys.py::test_a_key_named_twice_on_a_chain_is_one_lane",),
    ),
)

VIEWS = "tests/faults/test_relayer_views.py"
NODES = "tests/faults/test_index_nodes.py"

RELAYER_ON_CHAIN = (
    Guard(
        "a refusal names a block in which the call would have succeeded, and its payer is told that it is for good",
        "relayer/preflight.py",
        "again is not None and again.code == refusal.code",
        "True",
        (f"{VIEWS}::test_no_block_is_told_of_a_refusal_that_the_block_does_not_hold",),
    ),
    Guard(
        "a transaction counts as final although its block was never seen standing",
        "relayer/following.py",
        "keys = [key for key in self._transactions.mined if key[0] <= deep and key in self._transactions.verified]",
        "keys = [key for key in self._transactions.mined if key[0] <= deep]",
        (f"{VIEWS}::test_nothing_is_final_whose_block_was_not_seen_standing",),
    ),
    Guard(
        "what had ended is on its way again, though another URL has its receipt: it may land twice",
        "relayer/repairing.py",
        "landed |= await receipts_if_told(node, ended)",
        "pass",
        (f"{VIEWS}::test_what_ended_stays_so_while_any_url_has_its_receipt",),
    ),
    Guard(
        "one answer names a head far above ours, and all that was mined is final at once",
        "relayer/feed.py",
        "below is None or below.hash != head.parent_hash",
        "False",
        (f"{FEED}::test_a_head_that_leads_nowhere_is_believed_only_if_no_other_is_named_meanwhile",),
    ),
    Guard(
        "only the newest signature's receipt is asked for, and an older one that was mined is never found",
        "relayer/receipts.py",
        "asked = [(transaction, attempt) for transaction in transactions for attempt in transaction.attempts]",
        "asked = [(transaction, transaction.attempts[-1]) for transaction in transactions]",
        (f"{REPAIR}::test_the_first_of_two_signatures_is_found_when_it_is_the_one_mined",),
    ),
)

INDEXER = (
    Guard(
        "a log that a node left out contradicts what follows, and the index stands still although nodes have it by now",
        "indexer/chain.py",
        "                await self._doubt()\n",
        "",
        (f"{NODES}::test_a_wrong_block_that_contradicts_what_follows_heals",),
    ),
    Guard(
        "a header of another fork between two is taken for one of the chain",
        "indexer/fetch.py",
        "            if after.parent_hash != one.hash:\n",
        "            if False:\n",
        (f"{NODES}::test_a_header_of_another_fork_between_two_is_a_fault",),
    ),
    Guard(
        "history is read on top of a block that the chain has replaced",
        "indexer/chain.py",
        "            if header is None or not _is(header, cursor):\n                raise Replaced\n",
        "            pass\n",
        (f"{NODES}::test_history_is_not_read_on_top_of_a_replaced_block",),
    ),
    Guard(
        "the last block of a page of history is another than that of its logs",
        "indexer/fetch.py",
        "if hashes.get(last, end.hash) != end.hash:",
        "if False:",
        (f"{NODES}::test_the_last_block_of_a_page_of_history_is_that_of_its_logs",),
    ),
    Guard(
        "a reorganization undoes blocks that another node still has",
        "indexer/lineage.py",
        "    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:\n        return False\n",
        "",
        (f"{LINEAGE}::test_another_node_confirms_only_the_same_fork",),
    ),
    Guard(
        "a node that merely lags counts as one that confirms a reorganization",
        "indexer/lineage.py",
        "return fork.replaced is None or replaced_hash != fork.replaced.hash",
        "return True",
        (f"{LINEAGE}::test_another_node_confirms_only_the_same_fork",),
    ),
    Guard(
        "what the chain called final counts for nothing: a reorganization goes back below it",
        "core/chain/finality.py",
        "return finalized if finalized is not None and finalized <= indexed else indexed - depth",
        "return indexed - depth",
        ("tests/unit/test_finality.py::test_the_final_block_is_the_nodes_or_so_many_back",),
    ),
    Guard(
        "a payment whose transfer was read late stays one that brought nothing, and is never booked",
        "indexer/store/steps.py",
        "        await _pair_again(connection, sources, token_blocks)\n",
        "",
        ("tests/integration/test_index_authorizations.py::test_a_transfer_that_is_put_in_later_makes_its_payment",),
    ),
    Guard(
        "what one of two nodes calls final is believed, though the other does not call it so",
        "indexer/final.py",
        "return min(self._moving(numbers, now) or numbers.values())",
        "return max(self._moving(numbers, now) or numbers.values())",
        ("tests/integration/test_index_noted.py::test_final_is_what_every_node_that_answers_calls_so",),
    ),
    Guard(
        "of a node that pads the numbers of its logs, and leaves blooms empty, no log is read",
        "indexer/fetch.py",
        "given.setdefault(log.block_hash, []).append(log)",
        "given.setdefault(log.block_number, []).append(log)",
        ("tests/unit/test_index_node.py::test_logs_whose_numbers_are_padded_are_of_the_same_blocks",),
    ),
    Guard(
        "a log whose place no column holds ends the indexer",
        "indexer/decode.py",
        "if not 0 <= index < INDEXES:",
        "if False:",
        (
            "tests/integration/test_index_unreadable.py::test_for_logs_that_cannot_be_read_the_next_node_is_asked_from_then_on",
        ),
    ),
    Guard(
        "a node whose logs cannot be read is asked for them for ever, though there is another",
        "indexer/fetch.py",
        "            self.node.look_closely()\n            raise NodeFault",
        "            raise NodeFault",
        (
            "tests/integration/test_index_unreadable.py::test_for_logs_that_cannot_be_read_the_next_node_is_asked_from_then_on",
        ),
    ),
    Guard(
        "a fork or a lag, which come often, has every log looked at closely, and the index falls behind",
        "indexer/fetch.py",
        "        except ChainMoved:\n            raise\n",
        "",
        ("tests/unit/test_index_node.py::test_for_a_fork_or_a_lag_no_log_is_looked_at_closely",),
    ),
    Guard(
        "a log whose block's hash is none counts as one of a fork, and its node is asked for ever",
        "indexer/decode.py",
        "        if hex_of(bytes_of(hash_text, 32)) != hash_text.lower():",
        "        if False:",
        (
            "tests/integration/test_index_unreadable.py::test_for_logs_that_cannot_be_read_the_next_node_is_asked_from_then_on",
        ),
    ),
    Guard(
        "what one node called final is believed of the chain of another, whose head was followed instead",
        "indexer/chain.py",
        "        self._said_final = None\n",
        "",
        (
            "tests/integration/test_index_noted.py::"
            "test_what_a_node_calls_final_whose_logs_it_refuses_is_not_believed_of_another_nodes_chain",
        ),
    ),
    Guard(
        "a page that a node refused is asked for again, as wide, for ever",
        "indexer/backfill.py",
        "self.ceiling = max(1, min(self.ceiling, blocks - 1, blocks // 2))",
        "self.ceiling = max(1, self.ceiling)",
        (
            f"{LINEAGE}::test_a_width_stays_within_its_bounds",
            f"{LINEAGE}::test_a_width_once_refused_is_regained",
            f"{LINEAGE}::test_a_width_finds_the_pages_it_aims_at",
        ),
    ),
    Guard(
        "a bloom filter denies logs that are there",
        "indexer/bloom.py",
        "for at in (0, 2, 4):",
        "for at in (0, 2, 6):",
        (LINEAGE,),
    ),
)

KEEPER = (
    Guard(
        "a market is settled within a minute of its bell, before a round of the final second is in a block",
        "keeper/stock/settling.py",
        "if now < facts.final_time + AFTER_BELL_SECONDS:",
        "if now < facts.final_time:",
        (SETTLING,),
    ),
    Guard(
        "a stale market is voided before its feed had time to print",
        "keeper/stock/settling.py",
        "            if left > 0:\n",
        "            if False:\n",
        (SETTLING,),
    ),
    Guard(
        "one read is enough to give money back for want of a reading",
        "keeper/stock/settling.py",
        "            if not facts.agreed:\n",
        "            if False:\n",
        (SETTLING,),
    ),
    Guard(
        "money is given back although another node has the reading",
        "keeper/opinions.py",
        '        if self.contrary:\n            return f", yet not by {_names(self.contrary)}"\n',
        "",
        (SETTLING,),
    ),
    Guard(
        "nodes that are away are not waited for before money is given back",
        "keeper/opinions.py",
        "if self.silent and not self.echoing and not waited_long:",
        "if False:",
        (SETTLING,),
    ),
    Guard(
        "a paused oracle's market is voided before its day is over",
        "keeper/stock/settling.py",
        "if now <= facts.final_time + PAUSE_PATIENCE:",
        "if now <= facts.final_time:",
        (SETTLING,),
    ),
    Guard(
        "two sources that disagree are believed",
        "keeper/sources/agreement.py",
        "if (high.value - low.value) * BPS > low.value * bounds.agree_within_bps:",
        "if False:",
        (SOURCES,),
    ),
    Guard(
        "of two configured sources one alone is believed",
        "keeper/sources/agreement.py",
        "    if len(sane) == 1:\n",
        "    if False:\n",
        (SOURCES,),
    ),
    Guard(
        "a single source leaps and is believed",
        "keeper/sources/agreement.py",
        "if moved * BPS > last.answer * bounds.max_move_bps:",
        "if False:",
        (SOURCES,),
    ),
    Guard(
        "a single source leaps and is believed while the node cannot say what the last round was",
        "keeper/sources/chainlink.py",
        "if error.kind is not RpcErrorKind.REVERTED:",
        "if error.kind not in (RpcErrorKind.REVERTED, RpcErrorKind.BAD_ANSWER):",
        (SOURCES,),
    ),
    Guard(
        "a value of now is posted under the older time of the source that agrees with it",
        "keeper/sources/agreement.py",
        "return replace(newer, source=",
        "return replace(newer, observed_at=min(low.observed_at, high.observed_at), source=",
        (SOURCES,),
    ),
    Guard(
        "an observation from the future is posted",
        "keeper/sources/agreement.py",
        "if sample.observed_at > now:",
        "if False:",
        (SOURCES,),
    ),
    Guard(
        "what is seen now is dated into the past of a chain that catches up after a halt",
        "keeper/agent/snapshot_job.py",
        "if run.stops(run.head_late):",
        "if False:",
        (SOURCES,),
    ),
    Guard(
        "a source that is well ahead of the chain is dated back to the chain's clock",
        "keeper/sources/http.py",
        "if observed_at - now > MAX_AHEAD_SECONDS:",
        "if False:",
        ("tests/integration/test_keeper_http_sources.py::test_a_source_ahead_of_the_head_says_that_the_head_is_late",),
    ),
    Guard(
        "an observation too old for its feed is posted",
        "keeper/sources/agreement.py",
        "if now - sample.observed_at > max_lag:",
        "if False:",
        (SOURCES,),
    ),
    Guard(
        "a payment is credited on a bet of another payer, or of another payment",
        "keeper/agent/crediting.py",
        "    if not is_for(brought, payment):\n",
        "    if False:\n",
        (CREDITING,),
    ),
    Guard(
        "a payment is credited with the amount that was signed instead of the one that came",
        "keeper/agent/crediting.py",
        "if amounts == (payment.value, payment.value):",
        "if True:",
        (CREDITING,),
    ),
    Guard(
        "any call is taken for the token's own when it is read for what was signed",
        "keeper/agent/crediting.py",
        "    if used.to != token:\n        return None\n",
        "",
        (CREDITING,),
    ),
    Guard(
        "a payer has no minute to come back before the keeper books the payment",
        "keeper/agent/crediting.py",
        'return f"its payer has {left} s to come back" if left > 0 else None',
        "return None",
        (CREDITING,),
    ),
    Guard(
        "what was done in time pages while the index reads the past",
        "keeper/run.py",
        "now = self.now if self.index is None else self.index.time\n",
        "now = self.now\n",
        (f"{DUE}::test_what_is_due_is_as_old_as_its_oldest_by_the_block_that_the_index_is_at",),
    ),
    Guard(
        "an owner whom the token has frozen pages for ever",
        "keeper/run.py",
        "(each.due_at for each in due if each.failed < REFUSED_TIMES)",
        "(each.due_at for each in due)",
        (f"{DUE}::test_owners_whom_the_token_refuses_are_told_apart_from_what_is_late",),
    ),
    Guard(
        "a payment sent past us pages before its block is final, when nobody may book it",
        "keeper/agent/credit_job.py",
        "    lag = await _finality_lag(run) if due else 0\n",
        "    lag = 0\n",
        ("tests/integration/test_keeper_backlog.py::test_a_payment_is_as_old_as_it_is_whoever_leads",),
    ),
)

TAKING_IN = "tests/integration/test_agent_taking_in.py"
DISPATCH = "tests/integration/test_webhook_dispatch.py"
RELAY_VIEWS = "tests/faults/test_relay_views.py"
PAYMENT_VIEWS = "tests/faults/test_payment_views.py"

API = (
    Guard(
        "a payer whose stake somebody else brought first is told that no money moved",
        "api/agent/trade/taking_in.py",
        "            if facts.settled_stake:  # somebody was faster with this very bet\n"
        "                return await self._outcomes.settled_soon(order.request, facts.block)\n"
        "            # Somebody was faster with the same authorization: what it brought is the payer's.\n"
        "            if facts.is_astray(payment.nonce):\n",
        "            if facts.is_astray(payment.nonce) and not facts.settled_stake:\n",
        ("tests/integration/test_agent_trade.py::test_a_bet_that_somebody_else_brings_first_is_no_refusal",),
    ),
    Guard(
        "a payer who brought a bet herself is told that it is refused, since the node is behind the block that has it",
        "api/agent/trade/taking_in.py",
        "intent.block_number is not None and facts.block >= intent.block_number",
        "True",
        (f"{PAYMENT_VIEWS}::test_a_bet_that_its_payer_brought_is_not_refused_for_what_it_did_itself",),
    ),
    Guard(
        "a bet that landed while it was looked at is refused, for what it did itself or for what expired meanwhile",
        "api/agent/trade/outcomes.py",
        "        if landed is not None:\n"
        "            return await self.receipt(trade, landed, replay=True, named=market)\n"
        "        raise for_now",
        "        raise for_now",
        (f"{PAYMENT_VIEWS}::test_a_bet_that_lands_while_it_is_looked_at_is_not_refused",),
    ),
    Guard(
        "a payer who brought a bet just before its market closed is told that the market is closed",
        "api/agent/trade/trading.py",
        "facts.timestamp < order.market.closes_at <= now",
        "False",
        (f"{PAYMENT_VIEWS}::test_a_bet_that_landed_before_its_market_closed_is_not_refused_for_the_close",),
    ),
    Guard(
        "who asks after a bet on its way is told that it is refused, and nobody has asked the chain",
        "api/agent/trade/outcomes.py",
        "raise refusal if refusal.code in RETRIABLE else trade_refusals.settling(kit, intent.tx_hash_hex)",
        "raise refusal",
        (
            "tests/unit/test_agent_trade_refusals.py::test_whoever_asks_after_a_bet_is_not_told_that_it_is_refused_for_good",
        ),
    ),
    Guard(
        "one authorization pays for two trades that two processes take in at once",
        "api/agent/trade/store.py",
        "    if await brought_for(connection, brought.wallet, brought.nonce) != brought.bet_hash:\n"
        "        raise BroughtForAnother\n",
        "",
        (f"{TAKING_IN}::test_one_authorization_pays_for_one_of_many_trades",),
    ),
    Guard(
        "the same bet under two keys is taken in twice by two processes that look at the same moment",
        "api/agent/trade/store.py",
        "    await _PROMISES.wait_for_turn(connection, request.chain_id, wallet)\n",
        "",
        (f"{TAKING_IN}::test_of_many_twins_one_is_on_its_way",),
    ),
    Guard(
        "a payment is sent after its authorization has ended, and gas goes to what can only fail",
        "api/agent/trade/taking_in.py",
        "not_after=payment.valid_before if is_new else None,",
        "not_after=None,",
        ("tests/integration/test_agent_payments.py::test_a_payment_whose_window_passed_in_the_queue_is_never_sent",),
    ),
    Guard(
        "two processes send the same webhook its events at once",
        "api/agent/notices/endpoints.py",
        " AND (w.lease IS NULL OR w.lease_until < now())",
        "",
        (f"{DISPATCH}::test_the_lease_of_a_process_that_died_ends",),
    ),
    Guard(
        "a process that was too slow moves a webhook on that another has taken over",
        "api/agent/notices/endpoints.py",
        'WHERE id = %s AND lease = %s"',
        'WHERE id = %s AND %s::uuid IS NOT NULL"',
        (f"{DISPATCH}::test_the_lease_of_a_process_that_died_ends",),
    ),
    Guard(
        "a process that was held up sends a webhook what another has gone past",
        "api/agent/notices/dispatcher.py",
        "if not is_ours or time.monotonic() - since",
        "if time.monotonic() - since",
        (f"{DISPATCH}::test_a_process_that_was_held_up_sends_nothing_after_another_went_on",),
    ),
    Guard(
        "a bet that is on the chain is refused because the node that was asked has not seen its block",
        "api/stock/landing.py",
        "await client.read_many([state], block, timeout_seconds=timeout_seconds)",
        'await client.read_many([state], "latest", timeout_seconds=timeout_seconds)',
        (f"{RELAY_VIEWS}::test_the_relayer_refuses_what_landed_for_another_reason_than_that",),
    ),
    Guard(
        "a bet is refused in a block that no node names, and an older one is believed that it is on no chain",
        "api/stock/outcomes.py",
        "raise refusals.unproven(relayed) if intent.block_number is None else refusals.not_sent(intent)",
        "raise refusals.not_sent(intent)",
        (f"{RELAY_VIEWS}::test_the_relayer_refuses_what_landed_for_another_reason_than_that",),
    ),
    Guard(
        "a name that changes its mind between the check and the connection is followed to where it leads then",
        "api/agent/notices/targets.py",
        "hostname=host, host=str(self._address), port=port",
        "hostname=host, host=socket.gethostbyname(host), port=port",
        ("tests/integration/test_webhook_pinning.py",),
    ),
    Guard(
        "a caller behind the proxy chooses the address that it is counted by",
        "api/http/caller.py",
        'entries = ",".join(lines).split(",")[-hops:]',
        'entries = ",".join(lines).split(",")',
        ("tests/unit/test_caller.py",),
    ),
    Guard(
        "a webhook is sent to an address that is not public",
        "api/agent/notices/targets.py",
        "if not addresses or not (allow_private or all(map(is_public, addresses))):",
        "if not addresses:",
        (f"{TARGETS}::test_a_name_of_a_private_address_is_refused",),
    ),
    Guard(
        "an IPv6 address that carries a private IPv4 one is taken for public",
        "api/agent/notices/targets.py",
        "if isinstance(address, ipaddress.IPv6Address) and (address not in _PUBLIC_V6 or address.scope_id):",
        "if False:",
        (TARGETS,),
    ),
    Guard(
        "a cloud's own addresses are taken for public",
        "api/agent/notices/targets.py",
        "return not any(address.version == network.version and address in network for network in _REFUSED)",
        "return True",
        (TARGETS,),
    ),
    Guard(
        "a webhook is sent without TLS",
        "api/agent/notices/targets.py",
        'if url.scheme != "https":',
        "if False:",
        (TARGETS,),
    ),
    Guard(
        "a webhook is sent to a port below 1024 that is none of the web's",
        "api/agent/notices/targets.py",
        "if port not in WEB_PORTS and port < LOWEST_OPEN_PORT:",
        "if False:",
        (TARGETS,),
    ),
    Guard(
        "the other of a signature's two forms, which anybody can make, counts as another signature",
        "core/signatures.py",
        "if int.from_bytes(signature[32:64]) > _HALF_ORDER:",
        "if False:",
        (
            "tests/unit/test_signatures.py::test_a_right_signature_counts_in_the_tokens_spelling_alone",
            "tests/integration/test_stock_relay.py",
        ),
    ),
)

SCRIPTS = (
    Guard(
        "the Safe is asked to let more stand on pools than they bear",
        "scripts/_deploy/caps.py",
        "self.units is not None and feed.pot_cap_units <= self.units",
        "self.units is not None",
        ("tests/unit/test_pot_caps.py",),
    ),
    Guard(
        "a pool feed whose pools cannot be told is allowed on a live network with nothing to show for it",
        "scripts/_deploy/caps.py",
        "    if local:\n",
        "    if local or limit.units is None:\n",
        ("tests/unit/test_pot_caps.py",),
    ),
    Guard(
        "a deployment is paid for whose inputs cannot be recorded",
        "scripts/_deploy/flow.py",
        "        write_deployment(course.rehearsed(self.facts, owner), self.out, rehearse=True)\n",
        "",
        ("tests/unit/test_deploy_flow.py::test_what_cannot_be_recorded_is_never_sent",),
    ),
    Guard(
        "what stands of a deployment that broke off is forgotten",
        "scripts/_deploy/journal.py",
        '        self._note(contract=name, **contract.model_dump(mode="json", by_alias=True))\n',
        "",
        ("tests/unit/test_deploy_flow.py::test_what_stands_when_a_deployment_breaks_off_is_found",),
    ),
    Guard(
        "a contract that only looks like the pool feed chooses what its readings are held to",
        "scripts/_verify/pools.py",
        "    if named is None:\n        return",
        "    if named is None or isinstance(named, PoolFeed):\n        return",
        (f"{POOL_VERIFY}::test_the_feeds_own_word_for_what_it_is_made_of_is_not_taken",),
    ),
    Guard(
        "a reading that its pools have forgotten is not computed again",
        "scripts/_verify/pools.py",
        "pool = pool or await from_logs(chain, address, at, feed.terms.window)",
        "pool = pool or None",
        (f"{POOL_VERIFY}::test_a_true_market_holds_and_a_lying_feed_is_found_out",),
    ),
    Guard(
        "a true market on a grid is called false, since its age bound is worked out as that of a feed of rounds",
        "core/agent/book.py",
        "    looks_back = feed.memory - feed.step if feed.step else 0",
        "    looks_back = 0",
        ("tests/unit/test_settlement_listing.py::test_a_reading_may_be_as_old_as_looks_at_no_time_of_stakes",),
    ),
    Guard(
        "everybody on the machine reads the keys and the database's password in the ready file",
        "scripts/_stack/state.py",
        "temporary.touch(mode=0o600)",
        "temporary.touch()",
        ("tests/unit/test_stack_ready_file.py",),
    ),
    Guard(
        "a ready file is written into one that was left behind, which anybody may read",
        "scripts/_stack/state.py",
        "    temporary.unlink(missing_ok=True)\n",
        "",
        ("tests/unit/test_stack_ready_file.py",),
    ),
)

CORE = (
    Guard(
        "a spin's pocket depends on words that favour the low numbers",
        "core/cup/wheel.py",
        "if word < _FAIR_BELOW:",
        "if True:",
        (CUP,),
    ),
    Guard(
        "what a lost connection rolled back is taken for stored: a transaction is sent that no row has, and sent again",
        "core/db/engine.py",
        "if begun.status is AsyncTransaction.Status.FAILED:",
        "if False:",
        (
            "tests/integration/test_relayer_life.py::test_a_connection_lost_while_wallets_are_told_stores_nothing_and_sends_nothing",
        ),
    ),
    Guard(
        "a stopped process keeps what it locked in the middle of a write, and no standby can go on",
        "core/db/heartbeat.py",
        "                await end_silent_sessions(connection)\n",
        "                pass\n",
        ("tests/integration/test_index_daemon.py::test_a_leader_that_stops_in_the_middle_of_a_page_is_replaced",),
    ),
    Guard(
        "a session is ended while it works",
        "core/db/silent.py",
        "AND b.wait_event_type = 'Client'",
        "",
        ("tests/integration/test_silent_sessions.py::test_other_sessions_are_let_be",),
    ),
    Guard(
        "a session that said something a moment ago is ended",
        "core/db/silent.py",
        "AND b.state_change < clock_timestamp() - make_interval(secs => %s)",
        "AND %s > 0",
        ("tests/integration/test_silent_sessions.py::test_other_sessions_are_let_be",),
    ),
)

CONTRACTS = tuple(
    Guard(each.name, each.source, each.code, each.without, (f"{each.suite}::{each.test}",)) for each in contracts.GUARDS
)

POOL_FEEDS = (
    Guard(
        "a reading is asked for in the very second it is of, whose block may still come",
        "core/feeds/grid.py",
        "if oldest <= (at := grid_time(moment, step)) < before:",
        "if oldest <= (at := grid_time(moment, step)) <= before:",
        (GRID,),
    ),
    Guard(
        "a reading before an early-resolvable market's interval is paid for, and counts for nothing",
        "core/feeds/grid.py",
        "yield from range(next_grid_time(max(first, oldest), step)",
        "yield from range(grid_time(max(first, oldest), step)",
        (GRID,),
    ),
    Guard(
        "what the pools have forgotten is asked for again and again",
        "core/feeds/grid.py",
        "if oldest <= (at := grid_time(moment, step)) < before:",
        "if (at := grid_time(moment, step)) < before:",
        (GRID,),
    ),
    Guard(
        "readings are recorded of a feed that no market needs",
        "keeper/agent/recording.py",
        "elif self.listed_on and max(self.recorded",
        "elif max(self.recorded",
        (RECORDING,),
    ),
    Guard(
        "nobody is told that a reading which decides a market was forgotten unrecorded",
        "keeper/agent/recording.py",
        "return sorted(at for at in gone - self.recorded if at < self.oldest)",
        "return []",
        (RECORDING,),
    ),
    Guard(
        "a market is given up while the reading that decides it can still be recorded",
        "keeper/agent/settling.py",
        "if facts.unrecorded is not None and now <= terms.voids_after:",
        "if False:",
        (AGENT_SETTLING,),
    ),
    Guard(
        "a market is listed whose pot has no room for a stake on each outcome",
        "keeper/agent/listing.py",
        "if plan.feed.terms.pot_cap < len(spec.weights) * MIN_STAKE:",
        "if False:",
        (SERIES,),
    ),
    Guard(
        "virtual weights outweigh all the money a pot may hold, and its prices stand still",
        "keeper/agent/listing.py",
        "min(priors.average, pot_cap // outcomes)",
        "priors.average",
        (SERIES,),
    ),
    Guard(
        "a swap that left a pool's tick where it was is taken for an observation of the pool",
        "core/feeds/pool_logs.py",
        "elif change.tick != self._tick:",
        "else:",
        (POOL_LOGS,),
    ),
    Guard(
        "an observation is made up for a time of which some logs are not known",
        "core/feeds/pool_logs.py",
        "elif time > self._since:",
        "else:",
        (POOL_LOGS,),
    ),
    Guard(
        "liquidity that begins or ends beside the price is counted as in range",
        "core/feeds/pool_logs.py",
        "not change.lower <= self._tick < change.upper",
        "not change.lower <= self._tick <= change.upper",
        (POOL_LOGS,),
    ),
    Guard(
        "a deployment file lets a pool feed's memory be shorter than what its readings look back on",
        "core/contracts/feeds.py",
        "if self.memory_seconds < reach:",
        "if False:",
        (DEPLOYMENTS,),
    ),
    Guard(
        "a reading that a node never told of is missing from the index, and the audit is clean",
        "indexer/audit/feeds.py",
        'self._comparison.keys("reading", [], recorded)',
        'self._comparison.keys("reading", [], [])',
        (POOL_INDEX,),
    ),
    Guard(
        "a payout is told as paid at a time before it was submitted",
        "core/agent/notices/log.py",
        "self.chain_micros = max(chain_at * MICROS, self.chain_micros + 1)",
        "self.chain_micros = chain_at * MICROS",
        (EVENT_LOG,),
    ),
    Guard(
        "an event for one endpoint takes a number of its wallet's sequence, and readers see a gap",
        "api/agent/notices/render.py",
        '"seq": None,',
        '"seq": 0,',
        ("tests/integration/test_agent_webhooks.py",),
    ),
    Guard(
        "who asks what a bet costs is refused for what the wallet holds",
        "api/agent/trade/trading.py",
        "            if payment is None or fault is not None:\n                await self._check_twin(order)\n",
        "            if payment is None or fault is not None:\n                _check_balance(order, facts)\n"
        "                await self._check_twin(order)\n",
        ("tests/integration/test_agent_refusals.py::test_the_balance_is_looked_at_only_when_a_payment_is_offered",),
    ),
    Guard(
        "the proof page says less is owed than the contract says",
        "api/solvency.py",
        "sum(owed) if isinstance(owed, tuple) else owed",
        "owed[0] if isinstance(owed, tuple) else owed - 1",
        ("tests/integration/test_stock_reads.py::test_the_proof_adds_up_on_the_chain",),
    ),
    Guard(
        "what a stranger has recorded is paid for a second time",
        "keeper/agent/record_job.py",
        "if not quality]",
        "if quality is not None]",
        (POOL_SERVICE,),
    ),
)


KMS_UNITS = "tests/unit/test_kms_signatures.py"
KMS_KEYS = "tests/integration/test_kms_keys.py"
KMS_RELAYER = "tests/integration/test_kms_relayer.py"

RELAYER_KEYS = (
    Guard(
        "a signature of another key than the lane's is sent",
        "relayer/kms/signatures.py",
        "if address_of_point(public_key.format(compressed=False)) == address:",
        "if True:",
        (KMS_UNITS,),
    ),
    Guard(
        "a signature with its s in the upper half is sent, which no chain takes",
        "relayer/kms/signatures.py",
        "s = min(s, ORDER - s)",
        "s = int(s)",
        (KMS_UNITS,),
    ),
    Guard(
        "a relayer starts with another key than the deployment file names",
        "relayer/kms/opening.py",
        "    _compare(name, address, holders)\n",
        "",
        (f"{KMS_KEYS}::test_another_key_than_the_deployment_names_is_refused",),
    ),
    Guard(
        "a relayer starts with another key than its setting says",
        "relayer/kms/opening.py",
        "    if name.address not in (None, address):\n",
        "    if False:\n",
        (f"{KMS_KEYS}::test_another_key_than_the_setting_says_is_refused",),
    ),
    Guard(
        "a signature that was changed on its way is believed",
        "relayer/kms/gcp.py",
        'if str(answer.get(f"{field}Crc32c")) != str(_crc32c(content)):',
        "if False:",
        (f"{KMS_KEYS}::test_an_answer_that_was_changed_on_its_way_is_asked_for_again",),
    ),
    Guard(
        "a digest that was changed on its way is signed and believed",
        "relayer/kms/gcp.py",
        'if answer.get("verifiedDigestCrc32c") is not True:',
        "if False:",
        (f"{KMS_KEYS}::test_an_answer_that_was_changed_on_its_way_is_asked_for_again",),
    ),
    Guard(
        "a throttled signature is given up at once",
        "relayer/kms/signer.py",
        "        if loop.time() + pause >= deadline:\n",
        "        if True:\n",
        (f"{KMS_KEYS}::test_throttled_and_failed_requests_are_made_again",),
    ),
    Guard(
        "everybody waits for a key service that is down, again and again",
        "relayer/kms/signer.py",
        "        if self.trouble is not None:\n            raise SignerUnavailable(self.trouble)\n",
        "",
        (f"{KMS_KEYS}::test_while_it_is_down_nobody_waits_and_it_comes_back_by_itself",),
    ),
    Guard(
        "a relayer waits for the row of a stopped one before it knows its lanes, and works none or some of them",
        "relayer/leases.py",
        "            if lane_id is None:\n",
        "            if True:\n",
        (
            "tests/integration/test_relayer_life.py::"
            "test_a_lane_whose_row_was_held_when_its_relayer_started_is_worked_like_the_others",
        ),
    ),
    Guard(
        "a lane whose key does not sign says that it is well",
        "relayer/standing.py",
        "    if standing.signer_trouble is not None:\n",
        "    if False:\n",
        (f"{DECISIONS}::test_lane_status",),
    ),
    Guard(
        "a signature made for one nonce is stored for another",
        "relayer/store.py",
        "else ready.get(unsigned)",
        "else list(ready.values())[prepared.index(each)]",
        (f"{KMS_RELAYER}::test_a_signature_for_a_nonce_that_went_elsewhere_is_forgotten",),
    ),
    Guard(
        "two lanes have the same intents signed, and pay twice",
        "relayer/queries.py",
        "WHERE c.lane_id <> %%(lane)s AND c.until > clock_timestamp()))",
        "WHERE false AND c.lane_id <> %%(lane)s))",
        (f"{KMS_RELAYER}::test_a_signature_for_a_nonce_that_went_elsewhere_is_forgotten",),
    ),
    Guard(
        "a key service that is down ends a lane that needs a no-op, and nothing on its way is followed",
        "relayer/lane_signer.py",
        "        except SignerUnavailable as error:\n",
        "        except ZeroDivisionError as error:\n",
        (f"{KMS_RELAYER}::test_a_hole_is_filled_and_a_call_cancelled_through_the_service_once_it_signs",),
    ),
    Guard(
        "a token that signs is sent in the clear",
        "core/config/values.py",
        """if url.startswith("http:") and host not in""",
        """if False and host not in""",
        (f"{KMS_UNITS}::test_tokens_are_sent_over_tls_or_to_this_machine",),
    ),
)

PYTHON = "api/clients/python/src/vpm_client"
TYPESCRIPT = "api/clients/typescript/src"
LIBRARIES = "tests/integration/test_client_libraries.py"
LIBRARY_UNITS = "tests/unit/test_client_versions.py"
KILLS = "tests/faults/test_client_kills.py::test_a_bet_is_one_stake_however_often_the_api_dies"
LIARS = f"{LIBRARIES}::test_a_challenge_for_anything_else_is_not_signed"
GATEWAYS = "tests/integration/test_client_gateways.py"
GATEWAY = f"{GATEWAYS}::test_what_is_said_of_a_payment_is_true_whatever_stands_before_the_service"
RECEIPTS = f"{LIBRARIES}::test_a_receipt_that_is_not_of_this_bet_is_not_believed"

CLIENTS = (
    Guard(
        "a bet whose answer was lost is made again under another key, and may be two stakes",
        f"{PYTHON}/betting.py",
        "                why = heard.why\n",
        "                why = heard.why\n"
        "                another = secrets.token_hex(16)\n"
        "                self.ticket = msgspec.structs.replace(self.ticket, idem_key=another, payment=None)\n",
        (f"{KILLS}[python]",),
    ),
    Guard(
        "a bet of the TypeScript library whose answer was lost is made again under another key, and may be two stakes",
        f"{TYPESCRIPT}/bet.ts",
        """      if ("lost" in heard) {\n""",
        """      if ("lost" in heard) {\n"""
        "        const { payment: _, ...unpaid } = this.ticket;\n"
        "        this.ticket = { ...unpaid, idemKey: crypto.randomUUID() };\n",
        (f"{GATEWAYS}::test_what_typescript_says_of_a_payment_is_true[an answer that is cut off]",),
    ),
    Guard(
        "a bet that a firewall hides is told as refused, and its money as not moved",
        f"{PYTHON}/betting.py",
        "                if not error.code and self.ticket.payment is not None:\n",
        "                if False:\n",
        (f"{GATEWAY}[a firewall instead of the first answer]",),
    ),
    Guard(
        "a bet that a firewall hides is told as refused where the firewall's answer names an error",
        f"{PYTHON}/errors.py",
        '        and isinstance(content.get("retriable"), bool)\n',
        "",
        (f"{GATEWAY}[a firewall that speaks JSON]",),
    ),
    Guard(
        "a bet is told as refused because something before the service asks for money of its own",
        f"{PYTHON}/betting.py",
        "            if self.ticket.payment is not None:\n                self.checked(challenge)\n",
        "",
        (f"{GATEWAY}[somebody else's challenge]",),
    ),
    Guard(
        "a bet that is on its way is told as refused by a service that is switched off",
        f"{PYTHON}/betting.py",
        "(self.sent > 1 and error.code in KNOWS_NO_BETS)",
        "False",
        (f"{GATEWAY}[switched off while its transaction is on the way]",),
    ),
    Guard(
        "a bet that may still be taken is told as refused because there is no other quote for it",
        f"{PYTHON}/betting.py",
        "self.refused(refusal)) from None",
        "Payment.REFUSED) from None",
        (f"{GATEWAY}[refused for now, and there is no other lock]",),
    ),
    Guard(
        "a caller's own key is forgotten once its market has closed, and its bet is made elsewhere a second time",
        f"{PYTHON}/betting.py",
        "        before = yield from made_before(",
        "        before = None and made_before(",
        (f"{GATEWAYS}::test_the_same_bet_by_a_key_of_ones_own_is_told_whatever_has_closed_since",),
    ),
    Guard(
        "a refusal that a reorganization may undo is told as one for good",
        f"{PYTHON}/betting.py",
        "if not error.is_final or (self.sent",
        "if (self.sent",
        (f"{GATEWAY}[refused by a block that may be undone]",),
    ),
    Guard(
        "an attempt of the keeper's to book a payment is overwritten by a call that began before it",
        "api/agent/trade/store.py",
        "WHERE agent_trade.attempt = excluded.attempt - 1 RETURNING attempt",
        "RETURNING attempt",
        ("tests/integration/test_agent_taking_in.py::test_an_attempt_that_the_keeper_made_meanwhile_stands",),
    ),
    Guard(
        "who is refused by a block that may be undone is told to make another bet",
        "api/agent/errors.py",
        "waits or code in RETRIABLE",
        "code in RETRIABLE",
        ("tests/unit/test_agent_catalogue.py::test_what_may_still_be_taken_is_not_called_hopeless",),
    ),
    Guard(
        "whoever bets the same again is kept waiting until it is a second bet",
        f"{PYTHON}/betting.py",
        " or self.is_of_a_twin(error)",
        "",
        (f"{GATEWAY}[the same bet under another key is on its way]",),
    ),
    Guard(
        "a client signs a payment to whomever the challenge names",
        f"{PYTHON}/betting.py",
        """            "payTo": (offer.pay_to.lower(), self.ticket.contract.lower()),\n""",
        "",
        (f"{LIARS}[another payee]",),
    ),
    Guard(
        "a client signs a payment of any amount that the challenge names",
        f"{PYTHON}/betting.py",
        """            "maxAmountRequired": (offer.max_amount_required, str(units(self.ticket.size_usd))),\n""",
        "",
        (f"{LIARS}[a larger amount]",),
    ),
    Guard(
        "a client believes a receipt that anybody signed",
        f"{PYTHON}/betting.py",
        "if signer is None or signer.lower() != self.attester.lower():",
        "if False:",
        (f"{RECEIPTS}[another signature]",),
    ),
    Guard(
        "a client believes the service's signed receipt of another trade",
        f"{PYTHON}/betting.py",
        "if said != (body.receipt.tx_hash, self.ticket.wallet.lower(), body.receipt.trade_id):",
        "if False:",
        (f"{RECEIPTS}[another transaction]",),
    ),
    Guard(
        "a delivery is taken however old it is",
        f"{PYTHON}/webhooks.py",
        'if not re.fullmatch("[0-9]{1,15}", stamp) or abs(now - int(stamp)) > self._window:',
        "if False:",
        (f"{LIBRARY_UNITS}::test_what_is_too_old_or_from_the_future_is_refused",),
    ),
    Guard(
        "a delivery that somebody recorded is taken again",
        f"{PYTHON}/webhooks.py",
        "if (event_id, stamp) in self._seen:",
        "if False:",
        (f"{LIBRARY_UNITS}::test_what_the_service_delivers_is_taken_once",),
    ),
    Guard(
        "an event that the stream shows again is handed on again",
        f"{PYTHON}/events.py",
        "if event.seq is None or event.seq < self.next_seq:",
        "if event.seq is None:",
        (f"{LIBRARY_UNITS}::test_a_cursor_takes_each_event_once_and_sees_a_gap",),
    ),
)

ANSWERS = (
    Guard(
        "the prices of a market's outcomes sum to 99.9999",
        "core/money.py",
        "    for at in lost[: whole - sum(parts)]:\n        parts[at] += 1\n",
        "",
        (f"{RENDER}::test_prices_of_two_sides_sum_to_a_hundred",),
    ),
    Guard(
        "a list shows odds of a market that has its result",
        "api/agent/render/markets.py",
        '"odds": None if market.ending is not None else odds(market),',
        '"odds": odds(market),',
        (f"{RENDER}::test_a_market_that_ended_shows_its_result_and_no_odds",),
    ),
    Guard(
        "the outcomes of a market that has its result show odds",
        "api/agent/render/markets.py",
        '{**each, "impliedPct": None if market.ending is not None else price}',
        '{**each, "impliedPct": price}',
        (f"{RENDER}::test_a_market_that_ended_shows_its_result_and_no_odds",),
    ),
    Guard(
        "research and quotes show odds of a market that has its result",
        "api/agent/render/markets.py",
        "if market.kind is MarketKind.RANGE or market.ending is not None:",
        "if market.kind is MarketKind.RANGE:",
        (f"{RENDER}::test_a_market_that_ended_shows_its_result_and_no_odds",),
    ),
    Guard(
        "the fewest shares that a quote suggests are missed when a bet of a dollar comes first",
        "api/agent/render/quotes.py",
        "return got.shares * 99 // 100",
        "return got.shares",
        (f"{RENDER}::test_suggested_limits_bear_a_small_bet_that_comes_first",),
    ),
    Guard(
        "a bet is quoted and taken in the second in which bets have ended",
        "api/agent/facts.py",
        '"open" if self.spec.opens_at <= now < self.closes_at',
        '"open" if self.spec.opens_at <= now <= self.closes_at',
        (f"{RENDER}::test_bets_end_in_the_very_second_of_the_deadline",),
    ),
    Guard(
        "nobody is warned of a bet that is paid less than its stake if it wins",
        "api/agent/outlook.py",
        "if payout < amount:",
        "if False:",
        (f"{RENDER}::test_a_bet_that_would_be_paid_less_than_its_stake_is_warned_about",),
    ),
    Guard(
        "a limit beyond the contract's numbers is a fault of ours instead of a refusal",
        "api/agent/requests.py",
        "Field(gt=0, le=MAX_AMOUNT),",
        "Field(gt=0),",
        ("tests/unit/test_agent_trade_amounts.py::test_an_amount_that_no_contract_can_hold_is_refused_with_its_field",),
    ),
    Guard(
        "an object that names a field twice is read by one of the two",
        "api/http/requests.py",
        "        if name in values:\n            raise _NamedTwice(name)\n",
        "",
        (f"{REQUESTS}::test_a_field_named_twice_is_refused_by_name",),
    ),
    Guard(
        "a title has a time as programs write it",
        "core/agent/words.py",
        'return f"{written(when)} UTC"',
        "return when.isoformat()",
        ("tests/unit/test_market_document.py::test_every_specification_can_be_said",),
    ),
    Guard(
        "typed data is given for a stock bet that nobody can place",
        "api/stock/typed_data.py",
        "        check_amount(int(query.amount), max(MIN_BET, terms.min_entry), min(MAX_BET, terms.max_entry))\n",
        "",
        ("tests/integration/test_stock_relay.py::test_typed_data_is_ready_to_sign",),
    ),
)

GUARDS = (
    *POOL_FEEDS,
    *RELAYER,
    *RELAYER_ON_CHAIN,
    *RELAYER_KEYS,
    *INDEXER,
    *KEEPER,
    *API,
    *ANSWERS,
    *CLIENTS,
    *CORE,
    *SCRIPTS,
    *CONTRACTS,
)
