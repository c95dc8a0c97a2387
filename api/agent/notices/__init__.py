"""What wallets are told: streams, replay, polling, webhooks."""
