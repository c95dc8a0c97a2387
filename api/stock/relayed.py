"""A bet as somebody brought it to the relay: what its body says, and what follows from that alone."""

from __future__ import annotations

from dataclasses import dataclass

from api.stock.authorization import StockBet
from api.stock.bodies.relay import EscapeKit
from api.stock.chain import StockContracts
from api.stock.requests import RelayRequest
from core.chain import Call, checksum
from core.contracts.deployments import Token
from core.hexadecimal import bytes_of, hex_of
from core.outbox import RELAY, IntentRequest
from core.signatures import signer_of, with_usual_v


@dataclass(frozen=True, slots=True)
class BetKey:
    """A bet's identity: its chain, its signer and the nonce of its authorization, which is of its market, side and
    amount. Whatever else its signer signs with this nonce, for another time, is the same bet."""

    chain_id: int
    signer: bytes
    nonce: bytes

    def intent_keys(self, attempts: int) -> list[str]:
        """Of so many attempts to bring it to the chain, in order."""
        bet = f"relay:{self.chain_id}:{self.signer.hex()}:{self.nonce.hex()}"
        return [f"{bet}:{attempt}" for attempt in range(1, attempts + 1)]


@dataclass(frozen=True, slots=True)
class RelayedBet:
    """A bet brought to the relay. is_signed: by its wallet's key. call: what places it, with the signature as the token
    takes it. chain_named, settler_named: where its body says that it belongs, if it does."""

    bet: StockBet
    is_signed: bool
    call: Call
    key: BetKey
    chain_named: int | None
    settler_named: str | None

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
        given = bytes_of(body.signature)
        usual = with_usual_v(given)
        is_signed = signer_of(bet.digest(token), usual) == bet.signer
        call = bet.call(contracts.settler, usual if is_signed else given)
        key = BetKey(chain_id, bytes_of(bet.signer), bet.nonce)
        return cls(bet, is_signed, call, key, body.chain_id, body.service_vpm)

    @property
    def nonce_hex(self) -> str:
        return hex_of(self.key.nonce)

    @property
    def escape_kit(self) -> EscapeKit:
        """The call, for whoever would rather send it without us."""
        return EscapeKit(
            to=self.call.to,
            data=hex_of(self.call.data),
            chain_id=self.bet.chain_id,
            expires_at=min(self.bet.valid_before, 2**53 - 1),
        )

    def intent(self, attempt: int) -> IntentRequest:
        """The transaction that attempt number `attempt` asks for."""
        return IntentRequest(
            key=self.key.intent_keys(attempt)[-1],
            chain_id=self.bet.chain_id,
            group=RELAY,
            kind="enter",
            to=self.call.to,
            data=self.call.data,
            replay_safe=True,
            not_after=self.bet.valid_before,
            payer=self.bet.signer,
        )
