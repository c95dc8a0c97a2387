"""Deployment files: one JSON file per network, the only place where addresses are written.

`load_deployment` checks a file completely and reports where a mistake is. `write_deployment` writes a file atomically
and never replaces one deployment with another. `deployments/schema.json` is the output of `json_schema()`, for editors
and other languages. Amounts in `params` are token units, times Unix seconds, durations seconds, fees basis points.
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
    """A token and the EIP-712 domain of its authorizations."""

    symbol: Annotated[str, Field(min_length=1, max_length=16)]
    address: AddressText
    decimals: Annotated[int, Field(ge=0, le=18)]
    domain_name: Annotated[str, Field(min_length=1)]
    domain_version: Annotated[str, Field(min_length=1)]


class ContractInfo(Part):
    """One of our contracts. `role` is a sentence for the proof page; `constructorArgs` suffice to verify its code."""

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
    def _check_threshold(self) -> Self:
        if self.threshold > len(self.owners):
            raise ValueError("the threshold is higher than the number of owners")
        return self


class Deployment(Part):
    """Everything that the service knows about a network.

    `sequencerFeed` is Chainlink's sequencer uptime feed, or null if the chain has none. Feeds may only use pools that
    one of the `poolFactories` created.
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
    def _check_consistency(self) -> Self:
        if self.status == "deployed" and not self.contracts:
            raise ValueError("status is deployed, but no contract is listed")
        if self.status == "not-deployed" and self.contracts:
            raise ValueError("status is not-deployed, but contracts are listed")
        for key, token in self.tokens.items():
            if key != token.symbol:
                raise ValueError(f"token {key} has the symbol {token.symbol}")
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
        """Return whether blocks come at regular intervals. Arbitrum produces blocks on demand, and tests set the block
        times of development chains."""
        return self.kind == "op-stack"

    def token(self, symbol: str) -> Token:
        if symbol not in self.tokens:
            raise DeploymentError(f"Network {self.network} lists no token {symbol}.")
        return self.tokens[symbol]

    def contract(self, name: str) -> ContractInfo:
        if name not in self.contracts:
            raise DeploymentError(
                f"{name} is not deployed on {self.network}.", hint="Deploy it, or correct VPM_DEPLOYMENTS_DIR."
            )
        return self.contracts[name]

    @property
    def price_feeds(self) -> tuple[PriceFeed, ...]:
        return tuple(feed for feed in self.feeds if isinstance(feed, PriceFeed))

    @property
    def agent_feeds(self) -> tuple[AgentFeed, ...]:
        return tuple(feed for feed in self.feeds if not isinstance(feed, PriceFeed))

    @property
    def published_feeds(self) -> tuple[PublishedFeed, ...]:
        return tuple(feed for feed in self.feeds if isinstance(feed, PublishedFeed))

    @property
    def pool_feeds(self) -> tuple[PoolFeed, ...]:
        return tuple(feed for feed in self.feeds if isinstance(feed, PoolFeed))

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
    """Load and check a deployment file. Raise DeploymentError with the file, the place and the mistake."""
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
        # orjson comes first, since it reports the line of a syntax error. In strict mode, "1" is not 1.
        orjson.loads(content)
        deployment = Deployment.model_validate_json(content, strict=True)
    except orjson.JSONDecodeError as error:
        raise DeploymentError(f"{path} is not JSON: {error}.") from None
    except ValidationError as error:
        raise DeploymentError(f"{path} is invalid: {validation_sentences(error)}.") from None
    if deployment.network != path.stem:
        raise DeploymentError(f"{path} is invalid: network is {deployment.network!r}, but the file is {path.stem!r}.")
    return deployment


def write_deployment(deployment: Deployment, path: Path, *, rehearse: bool = False) -> None:
    """Write a deployment file atomically. If the existing file has the status `deployed`, the new file may add
    contracts and details about them, but may not remove a contract or change its address. A rehearsal does everything
    except the final rename."""
    if path.stem != deployment.network:
        raise DeploymentError(
            f"Network {deployment.network} must be written to {deployment.network}.json, not to {path.name}."
        )
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
        os.chmod(partial, 0o644)  # public, and read by every daemon
        if not rehearse:
            os.replace(partial, path)
            partial = None
    except OSError as error:
        raise DeploymentError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)


def json_schema() -> bytes:
    """Return the contents of deployments/schema.json."""
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
                    hint="To deploy this network from scratch, move the old file away.",
                )
        if old.chain_id != new.chain_id:
            raise DeploymentError(f"{path} is for chain {old.chain_id}, not {new.chain_id}; it is not overwritten.")


def validation_sentences(error: ValidationError) -> str:
    """Describe each error in a sentence, with its place in the file."""
    sentences = []
    for problem in error.errors(include_url=False):
        parts = [part for part in problem["loc"] if part not in FEED_KINDS]  # without the name of the model
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
        message = problem["msg"].removeprefix("Value error, ")
        value = problem.get("input")
        shown = f" (it is {value!r})" if isinstance(value, str | int | float | bool) and place else ""
        sentences.append(f"{f'{place}: ' if place else ''}{message[0].lower()}{message[1:]}{shown}")
    return "; ".join(sentences)
