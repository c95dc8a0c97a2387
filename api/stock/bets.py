"""Stock bets: the message that a bettor signs, a bet as it was submitted, and its attempts in `relay_bet`.

A bet is the token's EIP-712 ReceiveWithAuthorization with the settler's entry nonce:

nonce = keccak256(abi.encode(ENTER_TYPEHASH, chainId, settler, marketId, outcome, amount, salt))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from api.payments.attempts import Attempts, BetKey
from api.payments.authorization import Authorization, SignedCall
from api.stock.chain import StockContracts
from api.stock.requests import RelayRequest
from core.chain import Call, Contract, checksum
from core.contracts.deployments import Token
from core.db.engine import Connection
from core.eip3009 import RECEIVE
from core.hexadecimal import bytes_of, hex_of
from core.signatures import signer_of, with_usual_v

ENTER_TYPEHASH = keccak(text="Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)")

NONCE_FORMULA = (
    "keccak256(abi.encode(keccak256('Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)'), chainId, "
    "settler, marketId, outcome, amount, salt))"
)


@dataclass(frozen=True, slots=True)
class StockBet:
    """A bet as its payer signed it. `amount` is in token units, times are in Unix seconds, and `signer` and `settler`
    are checksummed addresses."""

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
        """Return the nonce of the authorization. It binds the authorization to this market, side, amount, contract and
        chain."""
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "uint8", "uint256", "bytes32"],
                [ENTER_TYPEHASH, self.chain_id, self.settler, self.market_id, self.outcome, self.amount, self.salt],
            )
        )

    @property
    def authorization(self) -> Authorization:
        """Return the bet's authorization without a signature."""
        return Authorization(self.signer, self.settler, self.amount, self.valid_after, self.valid_before, self.nonce)

    def digest(self, token: Token) -> bytes:
        """Return the digest that the payer signs."""
        return self.authorization.digest(RECEIVE, token, self.chain_id)

    def typed_data(self, token: Token) -> dict[str, Any]:
        """Return the bet's typed data, the input of `eth_signTypedData_v4`."""
        return self.authorization.typed_data(RECEIVE, token, self.chain_id)

    def call(self, settler: Contract, signature: bytes, *, sender: str | None = None) -> Call:
        """Return the call that enters the bet. Anyone may send it."""
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
    """A bet submitted to the relay. is_signed: whether the key of its wallet signed it. signed: the call that places
    the bet, with the signature in the form that the token accepts. named_chain, named_settler: the chain and the
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
        return cls(bet, is_signed, signed, bet_key(bet), body.chain_id, body.service_vpm)

    @property
    def nonce_hex(self) -> str:
        return hex_of(self.key.values["nonce"])

    @property
    def row(self) -> dict[str, Any]:
        """Return the columns of the bet's row besides its key. They reset the time of an earlier confirmation, because
        a new attempt voids it."""
        return {"market_id": self.bet.market_id, "amount": self.bet.amount, "confirmation_sent_at": None}


def bet_key(bet: StockBet) -> BetKey:
    """Return the bet's key in `relay_bet`."""
    signer, nonce = bytes_of(bet.signer), bet.nonce
    values = {"chain_id": bet.chain_id, "signer": signer, "nonce": nonce}
    return BetKey(values, f"relay:{bet.chain_id}:{signer.hex()}:{nonce.hex()}")


# Joined by `entered_by`, since the owner of a transferred position did not place it; and by `entered_at`, which is
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
    """Count the bets of this signer in the last hour of which less than the market's smallest bet was accepted."""
    row = await connection.fetch_one(_RETURNED, key.values, prepare=True)
    assert row is not None
    return int(row[0])


async def mark_confirmation_sent(connection: Connection, key: BetKey) -> None:
    """Record that the sender received the confirmation. From then on the signature counts as used."""
    await connection.execute(
        "UPDATE relay_bet SET confirmation_sent_at = coalesce(confirmation_sent_at, now()) "
        "WHERE chain_id = %(chain_id)s AND signer = %(signer)s AND nonce = %(nonce)s",
        key.values,
    )
