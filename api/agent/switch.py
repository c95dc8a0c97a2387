"""Whether trading is on: the setting, the operator's switch, and the contract's own pause."""

from __future__ import annotations

from api.agent.facts import Venue
from core.db.switches import TRADING_PAUSED, SwitchWatcher


class Trading:
    def __init__(self, paused_by_setting: bool, watcher: SwitchWatcher) -> None:
        self._paused_by_setting = paused_by_setting
        self._watcher = watcher

    def why_off(self, venue: Venue | None) -> str | None:
        """A sentence when bets are refused, None while trading is on."""
        if self._paused_by_setting or self._watcher.is_on(TRADING_PAUSED):
            return "Trading is paused by the operator; payouts go on."
        if venue is not None and venue.stakes_paused:
            return "New stakes are paused in the settlement contract; payouts go on."
        return None
