"""The event log of the agent API: what happened to a wallet's bets, in one numbered sequence per wallet.

- `kinds`: the event types; `payloads`: what each says, from exact integers.
- `log`: adding events inside the transaction of the change they report, and taking back those of undone blocks.
- `submitted`: events of transactions on their way, added by the relayer.
- `reading`: a wallet's events from a number on.

Every channel (streams, webhooks, replay, polling) reads `reading`; nothing else numbers or renders events.
"""
