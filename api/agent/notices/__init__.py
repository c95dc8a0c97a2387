"""Notifications for wallets: streams, replay, polling, webhooks."""
