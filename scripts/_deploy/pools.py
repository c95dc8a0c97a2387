"""Deploys pool feeds from an operator's request file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from eth_utils.address import to_checksum_address
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.chain import ChainClient, Contract
from core.contracts.deployments import ContractInfo, Deployment
from core.contracts.feeds import AddressText, FeedKey, PoolFeed, PoolSource, Seconds
from core.errors import DeploymentError
from core.feeds.grid import grid_time
from core.feeds.live import MIN_LIVE_WINDOW, POOL, TOKEN, NoPool, require_genuine
from core.money import USD
from scripts._deploy.session import DeploySession, ScriptRefused, ask_node

_JSON_SAFE = 2**53  # JSON numbers from here on lose their last digits


class _StrictModel(BaseModel):
    """A part of the request file. Unknown fields are rejected, and types are not converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PoolRequest(_StrictModel):
    address: AddressText
    name: Annotated[str, Field(min_length=1, max_length=80)]


class FeedRequest(_StrictModel):
    """A requested feed. Durations are in seconds, `pot_cap` and `feed_cap` in USD."""

    token: AddressText
    window: Seconds
    step: Seconds = 60
    max_quiet: Seconds
    max_age: Seconds
    pot_cap: Annotated[int, Field(ge=7)]  # the lister's minimum: a share for each of seven outcomes
    feed_cap: Annotated[int, Field(ge=1)]
    pools: Annotated[list[PoolRequest], Field(min_length=1, max_length=2)]


_FILE: TypeAdapter[dict[FeedKey, FeedRequest]] = TypeAdapter(dict[FeedKey, FeedRequest])


def read(path: Path) -> dict[str, FeedRequest]:
    try:
        return _FILE.validate_python(tomllib.loads(path.read_text()))
    except OSError as error:
        raise DeploymentError(f"The pools file {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{path} is not TOML: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise DeploymentError(
            f"{path} is invalid at {place}: {first['msg']}.", hint="deployments/pools.example.toml shows the format."
        ) from None


def contract_name(key: str) -> str:
    return f"PoolFeed {key}"


# ---------------------------------------------------------------- requests


def missing(facts: Deployment, asked: Mapping[str, FeedRequest]) -> list[str]:
    """Return the keys of the requested feeds that are not deployed yet. Raise ScriptRefused if a key already belongs to
    a different feed."""
    return [key for key, each in asked.items() if not _is_deployed(facts, key, each)]


def _is_deployed(facts: Deployment, key: str, asked: FeedRequest) -> bool:
    standing = next((each for each in facts.agent_feeds if each.key == key), None)
    if standing is None:
        return False
    if not isinstance(standing, PoolFeed):
        raise ScriptRefused(f"{key} is already the key of a published feed; use another key.")
    for name, has, wants in (
        ("token", standing.token, asked.token),
        ("window", standing.window_seconds, asked.window),
        ("step", standing.step_seconds, asked.step),
        ("max_quiet", standing.max_quiet_seconds, asked.max_quiet),
        ("max_age", standing.max_age_seconds, asked.max_age),
        ("pot_cap", standing.pot_cap_units, asked.pot_cap * USD),
        ("feed_cap", standing.feed_cap_units, asked.feed_cap * USD),
        ("pools", [each.address for each in standing.pools], [each.address for each in asked.pools]),
    ):
        if has != wants:
            raise ScriptRefused(
                f"{key} is already deployed with a different {name} ({has}; the file says {wants}), and cannot change. "
                "Use another key for a new feed. The Safe can change max_age, pot_cap and feed_cap: edit the "
                "deployment file and run ape run allow_feed."
            )
    return True


def require_long_windows(asked: Mapping[str, FeedRequest]) -> None:
    """Raise ScriptRefused if a window is so short that an attacker could cheaply move the price enough to change a
    result."""
    for key, each in asked.items():
        if each.window < MIN_LIVE_WINDOW:
            raise ScriptRefused(
                f"the window of {key} is {each.window} s, but a live network needs at least {MIN_LIVE_WINDOW} s; "
                "docs/pool-feeds.md explains why."
            )


def feed_of(session: DeploySession, facts: Deployment, key: str, asked: FeedRequest) -> PoolFeed:
    """Return a feed's entry for the deployment file, without an address but with the current supply and liquidity."""
    token = Contract(asked.token, TOKEN)
    pools = tuple(
        PoolSource(
            address=pool.address,
            name=pool.name,
            reference_liquidity=harmonic_liquidity(session, pool.address, asked.window),
        )
        for pool in asked.pools
    )
    try:
        return PoolFeed(
            kind="pool",
            key=key,
            address="0x" + "00" * 20,
            token=asked.token,
            token_decimals=int(session.read(token.call("decimals"))),
            quote=facts.token("USDC").address,
            supply=int(session.read(token.call("totalSupply"))),
            pools=pools,
            window_seconds=asked.window,
            step_seconds=asked.step,
            max_quiet_seconds=asked.max_quiet,
            memory_seconds=asked.window + asked.step,
            max_age_seconds=asked.max_age,
            pot_cap_units=asked.pot_cap * USD,
            feed_cap_units=asked.feed_cap * USD,
        )
    except ValidationError as error:
        raise ScriptRefused(f"{key} cannot be deployed: {error.errors()[0]['msg']}.") from None


def pool_fault(url: str, facts: Deployment, pool: str) -> str | None:
    """Return None if a factory of the deployment file made the pool; otherwise return why the pool is refused."""

    async def check(client: ChainClient) -> None:
        await require_genuine(client, pool, facts.pool_factories, (await client.head()).number)

    try:
        ask_node(url, check)
    except NoPool as error:
        return error.sentence()
    return None


def harmonic_liquidity(session: DeploySession, pool: str, window: int) -> int:
    """Return a pool's harmonic mean liquidity over the last window, rounded down and at least 1."""
    try:
        cumulatives = session.read(Contract(pool, POOL).call("observe", [window, 0]))[1]
    except Exception as error:  # ape and the decoder raise many types; each means that the pool did not respond
        raise ScriptRefused(
            f"{pool} cannot report its last {window} s ({error}). Either it is not a Uniswap v3 pool, or its history "
            "is too short. docs/pool-feeds.md shows how to grow its cardinality first."
        ) from None
    slowness = (int(cumulatives[1]) - int(cumulatives[0])) % 2**160  # wraps like the accumulator
    return max(1, (window << 128) // max(1, slowness))


# ---------------------------------------------------------------- deployment


def configuration(feed: PoolFeed) -> dict[str, Any]:
    return {
        "description": f"{feed.key.partition('/')[0]} / USD market cap",
        "token": feed.token,
        "quote": feed.quote,
        "supply": feed.supply,
        "pools": [pool.address for pool in feed.pools],
        "referenceLiquidity": [pool.reference_liquidity for pool in feed.pools],
        "window": feed.window_seconds,
        "step": feed.step_seconds,
        "maxQuiet": feed.max_quiet_seconds,
    }


def deploy(sender: Any, project: Any, feed: PoolFeed) -> ContractInfo:
    config = configuration(feed)
    made = sender.deploy(project.PoolFeed, tuple(config.values()))
    receipt = made.creation_metadata.receipt if made.creation_metadata else None
    if receipt is None:
        raise RuntimeError(f"there is no receipt for the deployment of {made.address}")
    return ContractInfo(
        address=to_checksum_address(made.address),
        role=f"{feed.key} computed from its pools' history; it has no publisher and no owner",
        deploy_tx=str(receipt.txn_hash).lower(),
        deploy_block=int(receipt.block_number),
        deployer=to_checksum_address(str(receipt.sender)),
        constructor_args={"config": {name: _as_text(value) for name, value in config.items()}},
    )


def constructor_arguments(recorded: Mapping[str, Any]) -> list[Any]:
    """Return the constructor's arguments from a recorded configuration. Numbers too large for JSON are recorded as
    text."""
    config = recorded["config"]
    numbers = [int(each) for each in config["referenceLiquidity"]]
    return [tuple({**config, "supply": int(config["supply"]), "referenceLiquidity": numbers}.values())]


def _as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return str(value) if isinstance(value, int) and value >= _JSON_SAFE else value


def with_feed(facts: Deployment, feed: PoolFeed, made: ContractInfo) -> Deployment:
    standing = PoolFeed.model_validate(feed.model_dump() | {"address": made.address})
    changed = facts.model_copy(
        update={
            "contracts": {**facts.contracts, contract_name(feed.key): made},
            "feeds": (*facts.feeds, standing),
        }
    )
    return Deployment.model_validate(changed.model_dump())


def record_latest_reading(session: DeploySession, project: Any, address: str) -> None:
    """Record a feed's newest reading, because the Safe can only allow a feed that has a reading. Any account can do
    this."""
    feed, now = project.PoolFeed.at(address), int(session.provider.get_block("latest").timestamp)
    feed.record([grid_time(now - 1, int(feed.step()))], sender=session.sender)
