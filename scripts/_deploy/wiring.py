"""Checks a deployment against its file by reading the contracts: their references to each other, their bounds, owners
and roles, and every feed's configuration. According to the contracts' logs, exactly the accounts in the file must have
the roles. This check finds a deployer that kept a role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from core.contracts.deployments import ContractInfo, Deployment
from core.contracts.events.agent import AGENT_LISTER_EVENTS, WALLET_EVENTS
from core.contracts.events.shared import PAUSER_EVENTS
from core.contracts.events.stock import LISTER_EVENTS
from core.contracts.feeds import PoolFeed, PublishedFeed
from core.hexadecimal import hex_of
from scripts._deploy import base, pools, safe, stock
from scripts._deploy.flow import binder
from scripts._deploy.session import is_local

BLOCKS_A_REQUEST = 10_000  # the range of logs that public nodes return
EVENTS = {
    "MarketLister": LISTER_EVENTS,
    "SettlementWallet": WALLET_EVENTS,
    "AgentLister": AGENT_LISTER_EVENTS,
    "Pauser": PAUSER_EVENTS,
}
OWNERSHIP_TRANSFERRED = keccak(text="OwnershipTransferred(address,address)")
FIRST_MODULE = "0x0000000000000000000000000000000000000001"  # where a Safe's list of modules begins
MODULES_NAMED = 10
OWNED = ("MarketLister", "SettlementWallet", "AgentLister", "Pauser")


@dataclass(frozen=True)
class Finding:
    """The result of one check. If `open` is True, a step remains to be done, and `what` names that step."""

    ok: bool
    what: str
    open: bool = False

    def line(self) -> str:
        return f"{'ok' if self.ok else 'open' if self.open else 'WRONG':<5} {self.what}"


def check(provider: Any, project: Any, bind: Any, deployment: Deployment) -> list[Finding]:
    findings = [_equal("chain id", provider.chain_id, deployment.chain_id)]
    if not deployment.is_deployed:
        return [*findings, Finding(False, f"according to its file, {deployment.network} is not deployed")]
    for name, info in deployment.contracts.items():
        findings.append(Finding(len(provider.get_code(info.address)) > 0, f"{name} has code at {info.address}"))
    if not all(one.ok for one in findings):
        return findings
    findings += [_code(provider, project, name, info) for name, info in deployment.contracts.items()]
    assert deployment.safe is not None
    findings += _safe(provider, bind(deployment.safe.address, abi=safe.safe_abi()), deployment)
    chain = _Chain(provider, binder(project), deployment)
    if "MarketLister" in deployment.contracts:
        findings += _stock(chain)
    if "SettlementWallet" in deployment.contracts:
        findings += _base(chain)
    return findings


@dataclass(frozen=True)
class _Chain:
    provider: Any
    bind: Any
    file: Deployment

    def at(self, name: str) -> str:
        return self.file.contract(name).address

    def bound(self, name: str) -> Any:
        return self.bind(name, self.at(name))

    @property
    def safe(self) -> str:
        assert self.file.safe is not None
        return self.file.safe.address

    def wallets(self, word: str) -> dict[str, str]:
        """Return the addresses of one role's operator wallets by wallet name. The wallets of the role `relay` are named
        `relay 0`, `relay 1` and so on."""
        return {name: at for name, at in self.file.operator_wallets.items() if name.split(" ")[0] == word}

    def allowed(self, name: str, event: str, subject: str, *topics: bytes) -> set[str]:
        """Return the accounts or feeds that are allowed according to their latest log. `subject` is the event field
        that contains the account or feed."""
        layout = next(each for each in EVENTS[name].values() if each.name == event)
        last: dict[str, bool] = {}
        for log in self.logs(name, [hex_of(each) for each in (layout.topic, *topics)]):
            said = layout.read(b"".join(map(HexBytes, log["topics"])), bytes(HexBytes(log["data"])))
            last[to_checksum_address(getattr(said, subject))] = said.allowed
        return {each for each, allowed in last.items() if allowed}

    def logs(self, name: str, topics: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        info = self.file.contract(name)
        first, head = info.deploy_block or self.file.start_block, int(self.provider.get_block("latest").number)
        for start in range(first, head + 1, BLOCKS_A_REQUEST):
            end = min(start + BLOCKS_A_REQUEST - 1, head)
            given = {"address": info.address, "topics": topics, "fromBlock": hex(start), "toBlock": hex(end)}
            yield from self.provider.make_request("eth_getLogs", [given])


def _equal(what: str, on_chain: Any, in_file: Any) -> Finding:
    if on_chain == in_file:
        return Finding(True, f"{what} is {in_file}")
    return Finding(False, f"{what} is {on_chain}, but the file says {in_file}")


def _code(provider: Any, project: Any, name: str, info: ContractInfo) -> Finding:
    """Compare a contract's code on the chain with the build of these sources, including immutables and metadata."""
    container = getattr(project, name.split(" ", 1)[0])
    code = container.contract_type.get_deployment_bytecode()
    recorded = info.constructor_args
    given = pools.constructor_arguments(recorded) if name.startswith("PoolFeed ") else list(recorded.values())
    arguments = container.constructor.encode_input(*given)
    # Run the constructor again at the contract's address, by an override for this call only, and take its result.
    pretended = {info.address: {"code": hex_of(bytes(code) + bytes(arguments))}}
    made = bytes(HexBytes(provider.make_request("eth_call", [{"to": info.address}, "latest", pretended])))
    same = made == bytes(HexBytes(provider.get_code(info.address)))
    return Finding(same, f"the code of {name} {'matches' if same else 'does not match'} these sources")


def _safe(provider: Any, bound: Any, deployment: Deployment) -> Iterator[Finding]:
    assert deployment.safe is not None
    yield _equal("Safe singleton (SafeL2 1.4.1)", safe.singleton_of(provider, bound.address), safe.SINGLETON)
    threshold = int(bound.getThreshold())
    enough = threshold >= safe.MIN_THRESHOLD
    whose = " (less is allowed on a local chain)" if is_local(provider) and not enough else ""
    yield Finding(
        enough or is_local(provider),
        f"{threshold} owners of the Safe must sign; the minimum is {safe.MIN_THRESHOLD}{whose}",
    )
    yield _equal("Safe threshold", int(bound.getThreshold()), deployment.safe.threshold)
    yield _equal("Safe owners", tuple(sorted(bound.getOwners())), tuple(sorted(deployment.safe.owners)))
    modules = ", ".join(bound.getModulesPaginated(FIRST_MODULE, MODULES_NAMED)[0])
    yield Finding(not modules, f"{modules} may act for the Safe" if modules else "no module may act for the Safe")


def _check_views(chain: _Chain, name: str, expected: Mapping[str, str]) -> Iterator[Finding]:
    bound = chain.bound(name)
    for view, address in expected.items():
        yield _equal(f"{name} {view}", getattr(bound, view)(), address)


def _owners(chain: _Chain) -> Iterator[Finding]:
    for name in chain.file.contracts:
        if name in OWNED or name.startswith("ObservationFeed"):
            bound = chain.bound(name)
            yield _equal(f"{name} owner", bound.owner(), chain.safe)
            offered = bound.pendingOwner()
            yield Finding(
                offered == safe.ZERO,
                f"the ownership of {name} is offered to {'no one' if offered == safe.ZERO else offered}",
            )


def _nothing_listed_before_handover(chain: _Chain, name: str, events: Sequence[str]) -> Finding:
    """Check that nothing was listed or allowed while the deployer still owned the lister."""
    accepted = chain.logs(name, [hex_of(OWNERSHIP_TRANSFERRED), None, hex_of(bytes(12) + bytes(HexBytes(chain.safe)))])
    since = min((_position(log) for log in accepted), default=None)
    topics = [hex_of(each.topic) for each in EVENTS[name].values() if each.name in events]
    before = [log for log in chain.logs(name, [topics]) if since is None or _position(log) < since]
    what = f"nothing was listed in {name} before the Safe owned it"
    return Finding(not before, what + (f", except in {before[0]['transactionHash']}" if before else ""))


def _position(log: Mapping[str, Any]) -> tuple[int, int]:
    return int(str(log["blockNumber"]), 16), int(str(log["logIndex"]), 16)


def _holders(what: str, named: Mapping[str, str], on_chain: Iterable[str]) -> Iterator[Finding]:
    holding = set(on_chain)
    for name, account in named.items():
        yield Finding(account in holding, f"{name} {account} may {what}")
    others = sorted(holding - set(named.values()))
    yield Finding(not others, f"no one else may {what}" + (f", except {', '.join(others)}" if others else ""))


def _guardians(chain: _Chain) -> Iterator[Finding]:
    yield from _holders("stop new bets", chain.wallets("guardian"), chain.allowed("Pauser", "GuardianSet", "account"))


def _stock(chain: _Chain) -> Iterator[Finding]:
    settler, resolver, lister = (chain.at(name) for name in ("VestedMarkets", "RoundResolver", "MarketLister"))
    token = chain.file.token("USDG").address
    constructed = {"token": token, "lister": lister, "guardian": chain.at("Pauser"), "treasury": chain.safe}
    yield from _check_views(chain, "VestedMarkets", constructed)
    sequencer = chain.file.sequencer_feed or safe.ZERO
    yield from _check_views(chain, "RoundResolver", {"settler": settler, "lister": lister, "sequencerFeed": sequencer})
    delay = chain.bound("RoundResolver").settleDelay()
    yield _equal("RoundResolver settle delay (s)", delay, chain.file.param("settleDelaySeconds"))
    yield from _check_views(chain, "MarketLister", {"settler": settler, "resolver": resolver})
    yield from _check_views(chain, "Pauser", {"target": settler})
    yield from _owners(chain)
    yield _nothing_listed_before_handover(chain, "MarketLister", ("MarketOpened",))
    bound = chain.bound("MarketLister")
    yield _equal("MarketLister kappa", bound.kappa(), chain.file.param("kappa"))
    yield _equal("MarketLister fee (bps)", bound.feeBps(), chain.file.param("feeBps"))
    yield _equal("MarketLister void delay (s)", bound.voidDelay(), chain.file.param("voidDelaySeconds"))
    for feed in chain.file.price_feeds:
        standing = bound.feed(feed.proxy)
        yield Finding(bool(standing.allowed), f"{feed.ticker} is allowed with feed {feed.proxy}")
        yield _equal(f"{feed.ticker} ticker at the lister", standing.ticker, feed.ticker)
        is_late = stock.is_svr_proxy(chain.provider, feed.proxy)
        as_found = "is an SVR proxy, which publishes rounds late" if is_late else "is not an SVR proxy"
        yield Finding(not is_late, f"{feed.ticker} feed {as_found}")
        yield _equal(f"{feed.ticker} stock token", standing.stockToken, feed.stock_token)
        yield _equal(f"{feed.ticker} maximum strike age (s)", standing.maxStrikeAge, feed.max_strike_age_seconds)
        yield _equal(f"{feed.ticker} maximum final age (s)", standing.maxFinalAge, feed.max_final_age_seconds)
        yield _equal(f"{feed.ticker} side cap (units)", standing.sideCap, feed.side_cap_units)
    yield _no_other_feeds(chain, "MarketLister", [feed.proxy for feed in chain.file.price_feeds])
    listing = chain.allowed("MarketLister", "OpenerSet", "opener")
    yield from _holders("list stock markets", chain.wallets("opener"), listing)
    yield from _guardians(chain)


def _base(chain: _Chain) -> Iterator[Finding]:
    settler, resolver, lister = (chain.at(name) for name in ("SettlementWallet", "FeedResolver", "AgentLister"))
    constructed = {
        "token": chain.file.token("USDC").address,
        "lister": lister,
        "resolver": resolver,
        "guardian": chain.at("Pauser"),
        "treasury": chain.safe,
    }
    yield from _check_views(chain, "SettlementWallet", constructed)
    yield from _check_views(chain, "FeedResolver", {"settler": settler, "lister": lister})
    yield from _check_views(chain, "AgentLister", {"settler": settler, "resolver": resolver})
    yield from _check_views(chain, "Pauser", {"target": settler})
    yield from _owners(chain)
    bounds = chain.bound("AgentLister").bounds()
    for name, number in base.bounds_of(chain.file).items():
        yield _equal(f"AgentLister {name}", getattr(bounds, name), number)
    yield _nothing_listed_before_handover(chain, "AgentLister", ("MarketListed", "FeedSet"))
    yield from _base_feeds(chain)
    for role, word, what in ((base.RELAYER, "relay", "settle payments"), (base.CREDITOR, "creditor", "book payments")):
        holding = chain.allowed("SettlementWallet", "RoleSet", "account", role)
        yield from _holders(what, chain.wallets(word), holding)
    listing = chain.allowed("AgentLister", "ListerSet", "account")
    yield from _holders("list agent markets", chain.wallets("lister"), listing)
    yield from _guardians(chain)


def _base_feeds(chain: _Chain) -> Iterator[Finding]:
    lister = chain.bound("AgentLister")
    publisher = chain.file.operator_wallets.get("publisher")
    for source in chain.file.agent_feeds:
        published = isinstance(source, PublishedFeed)
        if isinstance(source, PublishedFeed):
            feed = chain.bind("ObservationFeed", source.address)
            yield _equal(f"{source.key} publisher", feed.publisher(), publisher)
            yield _equal(f"{source.key} lag (s)", feed.maxLag(), source.max_lag_seconds)
        else:
            yield from _check_pool_feed(chain.bind("PoolFeed", source.address), source)
            for pool in source.pools:
                fault = pools.pool_fault(chain.provider.http_uri, chain.file, pool.address)
                yield Finding(fault is None, fault or f"{pool.name} {pool.address} was made by its factory")
        standing = lister.feed(source.address)
        if standing.condemned:
            yield Finding(False, f"{source.key} is condemned")
        elif not standing.allowed:
            first = "after its publisher has posted, run " if published else "run "
            hint = f"{first}ape run allow_feed"
            yield Finding(False, f"{source.key} is not allowed for markets yet; {hint}", open=True)
        else:
            yield _equal(f"{source.key} memory (s)", standing.memory_, source.memory_seconds)
            yield _equal(f"{source.key} max age (s)", standing.maxAge, source.max_age_seconds)
            yield _equal(f"{source.key} lag at the lister (s)", standing.lag, source.max_lag_seconds)
            yield _equal(f"{source.key} pot cap (units)", standing.potCap, source.pot_cap_units)
            yield _equal(f"{source.key} feed cap (units)", standing.feedCap, source.feed_cap_units)
            step = 0 if isinstance(source, PublishedFeed) else source.step_seconds
            yield _equal(f"{source.key} step at the lister (s)", standing.step, step)
            as_known = "has a publisher" if published else "has no publisher"
            yield Finding(bool(standing.published) == published, f"{source.key} {as_known} according to the lister")
    yield _no_other_feeds(chain, "AgentLister", [source.address for source in chain.file.agent_feeds])


def _check_pool_feed(feed: Any, source: PoolFeed) -> Iterator[Finding]:
    yield _equal(f"{source.key} token", feed.token(), source.token)
    yield _equal(f"{source.key} quote", feed.quote(), source.quote)
    yield _equal(f"{source.key} supply", int(feed.supply()), source.supply)
    made = tuple((str(each.pool), int(each.referenceLiquidity)) for each in feed.sources())
    recorded = tuple((each.address, each.reference_liquidity) for each in source.pools)
    yield _equal(f"{source.key} pools and reference liquidity", made, recorded)
    yield _equal(f"{source.key} window (s)", feed.window(), source.window_seconds)
    yield _equal(f"{source.key} step (s)", feed.step(), source.step_seconds)
    yield _equal(f"{source.key} maximum silence (s)", feed.maxQuiet(), source.max_quiet_seconds)


def _no_other_feeds(chain: _Chain, lister: str, recorded: Sequence[str]) -> Finding:
    others = sorted(chain.allowed(lister, "FeedSet", "feed") - set(recorded))
    return Finding(not others, "no other feed is allowed" + (f", except {', '.join(others)}" if others else ""))
