"""What is deployed where: one JSON file per network, the only place an address is written.

`load_deployment` checks a file completely and says where a fault is; `write_deployment` writes one atomically and never
replaces a deployed file by another deployment. `deployments/schema.json` is `json_schema()` of the models here (a test
holds it to that), for editors and other languages.

Amounts in `params` are token units, times Unix seconds, durations seconds, fees basis points.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field, ValidationError, model_validator

from core.contracts.feeds import KINDS as FEED_KINDS
from core.contracts.feeds import AddressText, AgentFeed, AnyFeed, Part, PoolFactory, PoolFeed, PriceFeed, PublishedFeed
from core.errors import DeploymentError

HashText = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")]


class Token(Part):
    """A token and the EIP-712 domain its authorizations are signed in."""

    symbol: Annotated[str, Field(min_length=1, max_length=16)]
    address: AddressText
    decimals: Annotated[int, Field(ge=0, le=18)]
    domain_name: Annotated[str, Field(min_length=1)]
    domain_version: Annotated[str, Field(min_length=1)]


class ContractInfo(Part):
    """One of our contracts. `role` is a sentence for the proof page; `constructorArgs` is enough to verify its code."""

    address: AddressText
    role: Annotated[str, Field(min_length=1)]
    deploy_tx: HashText | None = None
    deploy_block: Annotated[int, Field(ge=0)] | None = None
    deployer: AddressText | None = None
    constructor_args: dict[str, Any] = Field(default_factory=dict)
    verified: bool = False


class Safe(Part):
    """The multi-signature wallet that owns the contracts."""

    address: AddressText
    threshold: Annotated[int, Field(ge=1)]
    owners: tuple[AddressText, ...]

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.threshold > len(self.owners):
            raise ValueError("the threshold is higher than the number of owners")
        return self


class Deployment(Part):
    """A deployment file: everything the service knows about one network.

    `sequencerFeed` is Chainlink's uptime feed of a rollup's sequencer, null where the chain has none. `poolFactories`
    made the pools that feeds may be computed from.
    """

    network: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    name: Annotated[str, Field(min_length=1)]
    chain_id: Annotated[int, Field(ge=1)]
    kind: Literal["arbitrum-orbit", "op-stack", "local"]
    status: Literal["deployed", "not-deployed"]
    start_block: Annotated[int, Field(ge=0)]
    explorer_url: Annotated[str, Field(pattern=r"^https?://[^/]+.*[^/]$")] | None = None
    tokens: dict[str, Token]
    contracts: dict[str, ContractInfo] = Field(default_factory=dict)
    feeds: tuple[AnyFeed, ...] = ()
    sequencer_feed: AddressText | None = None
    pool_factories: tuple[PoolFactory, ...] = ()
    safe: Safe | None = None
    operator_wallets: dict[str, AddressText] = Field(default_factory=dict)
    params: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.status == "deployed" and not self.contracts:
            raise ValueError("status is deployed, but no contract is listed")
        if self.status == "not-deployed" and self.contracts:
            raise ValueError("status is not-deployed, but contracts are listed")
        for key, token in self.tokens.items():
            if key != token.symbol:
                raise ValueError(f"token {key} says its symbol is {token.symbol}")
        for what, values in (
            ("ticker", [feed.ticker for feed in self.price_feeds]),
            ("feed proxy", [feed.proxy for feed in self.price_feeds]),
            ("feed", [feed.key for feed in self.agent_feeds]),
            ("feed address", [feed.address for feed in self.agent_feeds]),
            ("contract address", [contract.address for contract in self.contracts.values()]),
        ):
            repeated = {value for value in values if values.count(value) > 1}
            if repeated:
                raise ValueError(f"{what} {min(repeated)} is listed twice")
        return self

    @property
    def is_deployed(self) -> bool:
        return self.status == "deployed"

    @property
    def blocks_are_regular(self) -> bool:
        """Check whether blocks come by the clock. Arbitrum makes them when there is something to put in, and a
        development chain has the times that its tests set."""
        return self.kind == "op-stack"

    def token(self, symbol: str) -> Token:
        """DeploymentError naming the network when there is no such token."""
        if symbol not in self.tokens:
            raise DeploymentError(f"Network {self.network} lists no token {symbol}.")
        return self.tokens[symbol]

    def contract(self, name: str) -> ContractInfo:
        """DeploymentError naming the network when the contract is not deployed there."""
        if name not in self.contracts:
            raise DeploymentError(
                f"{name} is not deployed on {self.network}.", hint="Deploy it, or correct the deployments folder."
            )
        return self.contracts[name]

    @property
    def price_feeds(self) -> tuple[PriceFeed, ...]:
        """Return what decides stock markets."""
        return tuple(feed for feed in self.feeds if isinstance(feed, PriceFeed))

    @property
    def agent_feeds(self) -> tuple[AgentFeed, ...]:
        """Return what decides agent markets, of whichever kind."""
        return tuple(feed for feed in self.feeds if not isinstance(feed, PriceFeed))

    @property
    def published_feeds(self) -> tuple[PublishedFeed, ...]:
        return tuple(feed for feed in self.feeds if isinstance(feed, PublishedFeed))

    @property
    def pool_feeds(self) -> tuple[PoolFeed, ...]:
        return tuple(feed for feed in self.feeds if isinstance(feed, PoolFeed))

    def price_feed(self, ticker: str) -> PriceFeed:
        for feed in self.price_feeds:
            if feed.ticker == ticker:
                return feed
        raise DeploymentError(f"Network {self.network} lists no feed for {ticker}.")

    def agent_feed(self, key: str) -> AgentFeed:
        for feed in self.agent_feeds:
            if feed.key == key:
                return feed
        keys = ", ".join(feed.key for feed in self.agent_feeds) or "none"
        raise DeploymentError(f"Network {self.network} lists no feed {key}.", hint=f"Its agent feeds: {keys}.")

    def param(self, name: str) -> int:
        if name not in self.params:
            raise DeploymentError(f"Network {self.network} has no parameter {name}.")
        return self.params[name]


def load_deployment(path: Path) -> Deployment:
    """Return the checked content of a file; DeploymentError with the file, the place in it and what is wrong."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DeploymentError(
            f"The deployment file {path} does not exist.",
            hint="Check VPM_DEPLOYMENTS_DIR and the network names.",
        ) from None
    except OSError as error:
        raise DeploymentError(f"The deployment file {path} cannot be read: {error.strerror}.") from None
    try:
        # Through orjson, so that a syntax error has its line, then strictly: "1" is not 1.
        orjson.loads(content)
        deployment = Deployment.model_validate_json(content, strict=True)
    except orjson.JSONDecodeError as error:
        raise DeploymentError(f"{path} is not JSON: {error}.") from None
    except ValidationError as error:
        raise DeploymentError(f"{path} is wrong: {faults(error)}.") from None
    if deployment.network != path.stem:
        raise DeploymentError(f"{path} is wrong: network is {deployment.network!r}, but the file is {path.stem!r}.")
    return deployment


def write_deployment(deployment: Deployment, path: Path, *, rehearse: bool = False) -> None:
    """Write a file whole or not at all. A file that says `deployed` is replaced only if every contract stays.

    Contracts may be added to it, and facts about them completed; none may vanish or move to another address. A
    rehearsal does everything but the last step, so what it lets pass can be written there later.
    """
    if path.stem != deployment.network:
        raise DeploymentError(f"Network {deployment.network} belongs in {deployment.network}.json, not {path.name}.")
    if path.exists():
        _refuse_overwriting(load_deployment(path), deployment, path)
    body = deployment.model_dump(mode="json", by_alias=True)
    text = orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    partial: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)  # public facts, read by every daemon
        if not rehearse:
            os.replace(partial, path)
            partial = None
    except OSError as error:
        raise DeploymentError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)


def json_schema() -> bytes:
    """Return the JSON Schema of a deployment file, as deployments/schema.json holds it."""
    schema = Deployment.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS)


def _refuse_overwriting(old: Deployment, new: Deployment, path: Path) -> None:
    if old.is_deployed:
        for name, contract in old.contracts.items():
            replacement = new.contracts.get(name)
            if replacement is None or replacement.address != contract.address:
                raise DeploymentError(
                    f"{path} already records {name} at {contract.address}; it is not overwritten.",
                    hint="Move the old file away if this network really starts anew.",
                )
        if old.chain_id != new.chain_id:
            raise DeploymentError(f"{path} is for chain {old.chain_id}, not {new.chain_id}; it is not overwritten.")


def faults(error: ValidationError) -> str:
    """List each fault with its place, as the file spells it."""
    said = []
    for problem in error.errors(include_url=False):
        parts = [part for part in problem["loc"] if part not in FEED_KINDS]  # which model it was held against
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
        message = problem["msg"].removeprefix("Value error, ")
        given = problem.get("input")
        shown = f" (it is {given!r})" if isinstance(given, str | int | float | bool) and place else ""
        said.append(f"{f'{place}: ' if place else ''}{message[0].lower()}{message[1:]}{shown}")
    return "; ".join(said)
