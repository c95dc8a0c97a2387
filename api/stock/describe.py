"""The surface in words, for the docs page and OpenAPI."""

from __future__ import annotations

from api.stock.authorization import NONCE_FORMULA

DESCRIPTION = """\
Markets on whether a stock's oracle reading finishes UP or DOWN between a strike time and a final time.

- Amounts are USDG in its smallest unit (6 decimals) as decimal strings; prices are oracle answers with 8 decimals as
  decimal strings; times are Unix seconds as numbers; outcomes are `UP` and `DOWN` (0 and 1 on chain).
- Everything here can be read from the contracts too. `readAt` says when the chain was last read; `stale` is true while
  it, or the feed of a market shown, cannot be read and the last good read is served.
- Nothing needs this service or its keeper: anyone can send a signed bet, settle a market by its rounds, void one whose
  time is over and deliver what is due. Listing a market takes a wallet that the lister's owner allows.
- Phases follow the time of the chain's newest block: `opens` before the strike, `live` until the final time, `frozen`
  until it is settled, then `resolved` or `void`. Bets are taken in `opens` and `live`.
- Errors are `{error, message}`; some add fields, such as `retryAfter` (seconds) or `escapeKit`.
- Query names that an operation does not know are named back in `ignoredQuery`, each with the nearest one it knows.
- Answers carry strong ETags: send `If-None-Match` and take 304. Fields may be added, never renamed or removed.
"""

RELAY_DESCRIPTION = f"""\
The bettor signs the token's EIP-3009 `ReceiveWithAuthorization` (EIP-712, in the token's domain): `to` is the settler,
`value` the amount, and `nonce` binds it to this bet:

`{NONCE_FORMULA}`

`GET /api/relay/typed-data` gives all of it ready to sign. The relay can change nothing of what was signed, and anyone
can send the same call: every answer about a sent bet has it in `escapeKit`.

Checks run in this order: rate (10 a minute per IP and per signer), shape, amount (the tighter of the market's bounds
and 1 to 100 USDG), window (`validBefore` 30 s to 1 hour ahead of the chain's clock), market exists, market open,
contract signer, signature, used, balance, simulation. Then the call is sent, and the answer waits up to 10 s for the
receipt: `confirmed`, `reverted`, or `pending` with the hash.

A signature books once. Send the same body again after `pending`, `busy` or `relay_failed`, or when no answer came: it
gives the first transaction and never bets twice. Once a bet was answered as `confirmed`, the same body is
`already_used`, with `receipt: "confirmed"`, the hash and the position: it is booked, and there is nothing more to send.
Whatever else the wallet signs with this nonce, for another time, is the same bet, and answered so.

A bet that the wallet's balance does not cover beside its bets on their way is `rate_limited` until those are booked.

A refusal with `final: false`, `reverted` or an error, was made by a block that is not final: should the chain undo that
block, the bet, which is signed, may still be taken. `GET /api/relay/receipt` tells, until `validBefore` is past; the
same body again would be a new attempt.
"""
