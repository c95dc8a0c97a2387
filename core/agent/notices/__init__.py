"""The event log of the agent API: what happened to a wallet's bets, in one numbered sequence per wallet.

- `kinds`: the event types; `payloads`: their contents, from exact integers.
- `log`: appends events in the transaction of the change they report, and corrects those of undone blocks.
- `submitted`: events of transactions about to be sent, appended by the relayer.
- `reading`: reads a wallet's events from a sequence number on.

Every channel (streams, webhooks, replay, polling) reads `reading`; nothing else numbers or renders events.
"""
