"""Stock bets: the message that a bettor signs, a bet as submitted, its attempts in `relay_bet`, and the search for the
transaction that placed it.

A bet is the token's EIP-712 ReceiveWithAuthorization with the settler's entry nonce (NONCE_FORMULA).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.database import DATABASE_ERRORS
from api.payments.attempts import Attempts, BetKey
from api.payments.authorization import Authorization, SignedCall
from api.requests import WHOLE
from api.stock.sources import StockContracts
from core.chain import Call, ChainClient, Contract, Receipt, checksum, values
from core.chain.wire import data_bytes
from core.contracts.deployments import Token
from core.contracts.events.shared import AUTHORIZATION_CANCELED, AUTHORIZATION_USED
from core.contracts.events.stock import ENTERED
from core.db.engine import Connection
from core.db.schema.index import chain_cursor
from core.db.schema.index_shared import token_authorization
from core.eip3009 import RECEIVE
from core.hexadecimal import bytes_of, hex_of
from core.signatures import signer_of, with_usual_v

UINT256_MAX = 2**256 - 1
ADDRESS = r"^0[xX][0-9a-fA-F]{40}$"
BYTES32 = r"^(0[xX])?[0-9a-fA-F]{64}$"


def _fits(text: str) -> str:
    if int(text) > UINT256_MAX:
        raise ValueError("it does not fit in 256 bits")
    return text


Uint256Text = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]{0,77})$", description="A decimal integer below 2^256."),
    AfterValidator(_fits),
]


class RelayRequest(BaseModel):
    """A signed bet. Sign the token's ReceiveWithAuthorization; `GET /api/relay/typed-data` returns it ready to sign."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, extra="ignore", strict=True)

    from_: Annotated[
        str, Field(alias="from", pattern=ADDRESS, description="The signer's address; becomes the position's owner.")
    ]
    market_id: Annotated[Uint256Text, Field(description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(ge=0, le=1, description="0 = UP, 1 = DOWN."), WHOLE]
    amount: Annotated[Uint256Text, Field(description="USDG units (6 decimals).", examples=["5000000"])]
    valid_after: Annotated[Uint256Text, Field(description="Unix seconds; 0 is fine.", examples=["0"])]
    valid_before: Annotated[
        Uint256Text, Field(description="Unix seconds, from 30 s to 1 hour ahead of the chain's clock.")
    ]
    salt: Annotated[str, Field(pattern=BYTES32, description="32 random bytes, in hex.")]
    signature: Annotated[
        str,
        Field(
            pattern=r"^(0[xX])?([0-9a-fA-F]{2}){1,2048}$",
            description="65 bytes r, s, v, in hex: EIP-712 over the token's ReceiveWithAuthorization.",
        ),
    ]
    chain_id: Annotated[
        Annotated[int, Field(ge=0, le=2**53 - 1), WHOLE] | None, Field(description="Checked when given.")
    ] = None
    service_vpm: Annotated[
        str | None, Field(pattern=ADDRESS, description="The settler's address; checked when given.")
    ] = None


ENTER_TYPEHASH = keccak(text="Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)")

NONCE_FORMULA = (
    "keccak256(abi.encode(keccak256('Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)'), chainId, "
    "settler, marketId, outcome, amount, salt))"
)


@dataclass(frozen=True, slots=True)
class StockBet:
    """A bet as its payer signed it. `amount` is in token units, times are Unix seconds, addresses are checksummed."""

    chain_id: int
    settler: str
    signer: str
    market_id: int
    outcome: int
    amount: int
    valid_after: int
    valid_before: int
    salt: bytes

    @property
    def nonce(self) -> bytes:
        """Return the nonce, which binds the authorization to this market, side, amount, contract and chain."""
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "uint8", "uint256", "bytes32"],
                [ENTER_TYPEHASH, self.chain_id, self.settler, self.market_id, self.outcome, self.amount, self.salt],
            )
        )

    @property
    def key(self) -> BetKey:
        signer, nonce = bytes_of(self.signer), self.nonce
        values = {"chain_id": self.chain_id, "signer": signer, "nonce": nonce}
        return BetKey(values, f"relay:{self.chain_id}:{signer.hex()}:{nonce.hex()}")

    @property
    def authorization(self) -> Authorization:
        """Return the authorization without a signature."""
        return Authorization(self.signer, self.settler, self.amount, self.valid_after, self.valid_before, self.nonce)

    def digest(self, token: Token) -> bytes:
        return self.authorization.digest(RECEIVE, token, self.chain_id)

    def typed_data(self, token: Token) -> dict[str, Any]:
        return self.authorization.typed_data(RECEIVE, token, self.chain_id)

    def call(self, settler: Contract, signature: bytes, *, sender: str | None = None) -> Call:
        return settler.call(
            "enterWithAuthorization",
            self.signer,
            self.market_id,
            self.outcome,
            self.amount,
            self.valid_after,
            self.valid_before,
            self.salt,
            signature,
            sender=sender,
        )


# A bet's nonce commits to market, side and amount: the same nonce signed for another window is the same bet.
ATTEMPTS = Attempts(
    "relay_bet",
    ("chain_id", "signer", "nonce"),
    payer="signer",
    asked_at="asked_at",
    details=("confirmation_sent_at",),
    key_is_bet=True,
)


@dataclass(frozen=True, slots=True)
class RelayedBet:
    """A bet submitted to the relay. `is_signed`: whether its wallet's key signed it. `signed`: the call that places the
    bet, with the signature in the form that the token accepts. `named_chain`, `named_settler`: the chain and the
    settler that the request's body names, if any."""

    bet: StockBet
    is_signed: bool
    signed: SignedCall
    key: BetKey
    named_chain: int | None
    named_settler: str | None

    @classmethod
    def of(cls, body: RelayRequest, contracts: StockContracts, token: Token, chain_id: int) -> RelayedBet:
        bet = StockBet(
            chain_id=chain_id,
            settler=contracts.settler.address,
            signer=checksum(body.from_.lower()),
            market_id=int(body.market_id),
            outcome=body.outcome,
            amount=int(body.amount),
            valid_after=int(body.valid_after),
            valid_before=int(body.valid_before),
            salt=bytes_of(body.salt, 32),
        )
        signature = bytes_of(body.signature)
        usual = with_usual_v(signature)
        is_signed = signer_of(bet.digest(token), usual) == bet.signer
        call = bet.call(contracts.settler, usual if is_signed else signature)
        signed = SignedCall("enter", chain_id, call, bet.authorization)
        return cls(bet, is_signed, signed, bet.key, body.chain_id, body.service_vpm)

    @property
    def nonce_hex(self) -> str:
        return hex_of(self.key.values["nonce"])

    @property
    def row(self) -> dict[str, Any]:
        """Return the columns of the bet's row other than its key. A new attempt voids an earlier confirmation."""
        return {"market_id": self.bet.market_id, "amount": self.bet.amount, "confirmation_sent_at": None}


# Joined by `entered_by`, because the owner of a transferred position did not place it, and by `entered_at`, which is
# indexed.
_RETURNED = b"""
SELECT count(*) FROM outbox_intent i
JOIN token_authorization t ON t.chain_id = i.chain_id AND t.authorizer = i.payer AND t.tx = i.tx_hash
JOIN stock_position p ON p.entered_at = t.at AND p.vintage > 0 AND p.entry_tx = t.tx AND p.entered_by = t.authorizer
JOIN stock_vintage v ON v.market_id = p.market_id AND v.vintage = p.vintage
JOIN stock_market m ON m.market_id = p.market_id
WHERE i.payer = %(signer)s AND i.chain_id = %(chain_id)s AND i.mined_at > now() - interval '1 hour'
AND CASE p.outcome WHEN 0 THEN p.offered * v.accepted_up < m.min_entry * v.offered_up
    ELSE p.offered * v.accepted_down < m.min_entry * v.offered_down END
"""


async def count_recent_returns(connection: Connection, key: BetKey) -> int:
    """Count the signer's bets in the past hour whose accepted part was below the market's smallest bet."""
    row = await connection.fetch_one(_RETURNED, key.values, prepare=True)
    assert row is not None
    return int(row[0])


async def mark_confirmation_sent(connection: Connection, key: BetKey) -> None:
    """Record that the confirmation reached the client that sent the bet. From now on the signature counts as used."""
    await connection.execute(
        "UPDATE relay_bet SET confirmation_sent_at = coalesce(confirmation_sent_at, now()) "
        "WHERE chain_id = %(chain_id)s AND signer = %(signer)s AND nonce = %(nonce)s",
        key.values,
    )


# ---------------------------------------------------------------- the transaction that placed a bet

# The nodes behind one address may be some blocks apart, and each request may reach a different node. A check that a bet
# is not on the chain therefore names a block that is no older than any block seen so far. It never asks for "latest".

SPENT_TOPICS = tuple(hex_of(each.topic) for each in (AUTHORIZATION_USED, AUTHORIZATION_CANCELED))
# A bet is valid for at most an hour, so its transaction is not older. Nodes limit the range of a search.
_MAX_SEARCH_BLOCKS = 40_000
_SEARCH_STEP_BLOCKS = 5_000


class LandingUnknown(Exception):
    """No node can show whether a bet is on the chain, because the block is too new or too old for them."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The index's record of a bet up to the block `number`. It is empty if the index is unreadable. `tx`: the
    transaction that placed the bet. `unpaired`: a transaction that used the bet's authorization, but whose transfer to
    the settler belongs to another authorization."""

    number: int = 0
    hash: bytes | None = None
    tx: bytes | None = None
    unpaired: bytes | None = None


async def find_landing(
    engine: AsyncEngine,
    client: ChainClient,
    contracts: StockContracts,
    bet: StockBet,
    timeout_seconds: float,
    *,
    seen: int | None,
    spent: bool = False,
) -> bytes | None:
    """Return the transaction that placed a bet, or None if the bet is certainly not on the chain. Check the index
    first, then the state of the bet's authorization at a specific block. Raise LandingUnknown if the nodes cannot tell,
    and RpcError or TimeoutError if no node responds.

    `seen`: a block seen earlier, because the state at an older block would prove nothing; None means the node's newest
    block. `spent`: whether a node reported the authorization as used. The state at an older block does not disprove
    that report.
    """
    index = await _read_index(engine, bet, timeout_seconds)
    if index.tx is not None:
        return index.tx
    async with asyncio.timeout(4 * timeout_seconds):
        if seen is None:
            seen = (await client.head(timeout_seconds=timeout_seconds)).number
        block = max(seen, index.number)
        if not spent:
            state = contracts.token.call("authorizationState", bet.signer, bet.nonce)
            if not values(await client.read_many([state], block, timeout_seconds=timeout_seconds))[0]:
                return None
        return await _find_use(client, contracts, bet, index, block, timeout_seconds)


async def _read_index(engine: AsyncEngine, bet: StockBet, timeout_seconds: float) -> _Indexed:
    spent = token_authorization
    query = (
        select(chain_cursor.c.number, chain_cursor.c.hash, spent.c.state, spent.c.recipient, spent.c.tx)
        .select_from(chain_cursor)
        .outerjoin(
            spent,
            and_(
                spent.c.chain_id == chain_cursor.c.chain_id,
                spent.c.nonce == bet.nonce,
                spent.c.authorizer == bytes_of(bet.signer),
            ),
        )
        .where(chain_cursor.c.chain_id == bet.chain_id)
    )
    try:
        async with asyncio.timeout(timeout_seconds), engine.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
    except DATABASE_ERRORS:
        return _Indexed()
    if row is None:
        return _Indexed()
    number, block_hash, state, recipient, tx = row
    is_ours = recipient == bytes_of(bet.settler)
    return _Indexed(max(0, number), block_hash, tx if is_ours else None, tx if state == "unpaired" else None)


async def _find_use(
    client: ChainClient, contracts: StockContracts, bet: StockBet, index: _Indexed, head: int, timeout_seconds: float
) -> bytes | None:
    """Return the transaction that used the authorization to place the bet, in a block up to `head`, or None.

    The index has every payment to the settler. If the authorization was used by the indexed block and the index has no
    payment, the bet was not placed and no logs are searched. Otherwise anyone could cancel an authorization and keep
    the relay searching. If the indexed block is on a fork that the index has not left yet, the index proves nothing.
    """
    if index.unpaired is not None:
        return await _check_transaction(client, contracts, bet, index.unpaired)
    since = 0
    if index.hash is not None:
        state = contracts.token.call("authorizationState", bet.signer, bet.nonce)
        (by_then,) = await client.read_many([state], hex_of(index.hash), timeout_seconds=timeout_seconds)
        if by_then is True:
            canonical = await client.block(index.number)
            if canonical is not None and canonical.hash == hex_of(index.hash):
                return None
        if by_then is False:
            since = index.number + 1
    return await _search_logs(client, contracts, bet, since, head)


async def _check_transaction(client: ChainClient, contracts: StockContracts, bet: StockBet, tx: bytes) -> bytes | None:
    receipt = await client.receipt(hex_of(tx))
    if receipt is None:
        raise LandingUnknown  # this node does not have it yet
    return tx if find_position(receipt, contracts, bet) is not None else None


async def _search_logs(
    client: ChainClient, contracts: StockContracts, bet: StockBet, since: int, head: int
) -> bytes | None:
    """Search the logs from the block `since` for the use of the bet's authorization. Return the transaction if it
    placed the bet, else None."""
    topics = (SPENT_TOPICS, _topic(bet.signer), hex_of(bet.nonce))
    lowest = max(since, head - _MAX_SEARCH_BLOCKS)
    while head >= lowest:
        since = max(lowest, head - _SEARCH_STEP_BLOCKS + 1)
        logs = await client.logs(since, head, [contracts.token.address], topics)
        for log in logs:
            tx = await _check_transaction(client, contracts, bet, data_bytes(log.transaction_hash))
            if tx is not None:
                return tx
        if logs:
            return None  # spent on something else, or cancelled
        head = since - 1
    raise LandingUnknown


def find_position(receipt: Receipt, contracts: StockContracts, bet: StockBet) -> int | None:
    """Return the id of the position that the bet opened in this transaction, or None."""
    for log in receipt.logs:
        topics, data = b"".join(map(data_bytes, log.topics)), data_bytes(log.data)
        if checksum(log.address) != contracts.settler.address or topics[:32] != ENTERED.topic:
            continue
        entered = ENTERED.read(topics, data)
        if (entered.owner, entered.market_id, entered.outcome, entered.offered) == (
            bytes_of(bet.signer),
            bet.market_id,
            bet.outcome,
            bet.amount,
        ):
            return int(entered.position_id)
    return None


def _topic(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")
