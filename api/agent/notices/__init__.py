"""Notifications of wallets: streams, replay, polling, webhooks."""
