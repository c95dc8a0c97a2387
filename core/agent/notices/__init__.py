"""The event log of the agent API: what happened to a wallet's bets, in one numbered sequence per wallet.

- `kinds`: the event types.
- `payloads`: the contents of events, from exact integers.
- `log`: appends events in the transaction of the change they report, and corrects the events of undone blocks.
- `submitted`: events of transactions about to be sent, appended by the relayer.
- `reading`: reads a wallet's events from a sequence number on.

Every channel (streams, webhooks, replay, polling) uses `reading`; no other code numbers or renders events.
"""
