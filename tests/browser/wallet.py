"""A wallet in the page: an EIP-1193 provider, announced by EIP-6963, that really signs with a local key.

What the page asks is answered here: signatures by eth-account, everything else by the local chain, as a browser
extension does. It begins on another chain, so the page has to have the right one added.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from playwright.sync_api import Page

from scripts._stack.wallets import Wallet
from tests.support.stock_chain import StockChain

ELSEWHERE = 1
DECLINED, UNKNOWN_CHAIN = 4001, 4902

PROVIDER = """
(() => {
  const listeners = {};
  const provider = {
    on: (name, listener) => { (listeners[name] ??= []).push(listener); },
    request: async ({ method, params }) => {
      const said = JSON.parse(await window.walletAsked(method, JSON.stringify(params ?? [])));
      if (said.code) throw Object.assign(new Error(said.message), { code: said.code });
      return said.result;
    },
  };
  const info = Object.freeze({ uuid: "4f0d1a6e-0001-4c1e-9d5a-000000000001", name: "Test wallet", rdns: "test.wallet",
    icon: "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'/>" });
  const announce = () => window.dispatchEvent(new CustomEvent("eip6963:announceProvider",
    { detail: Object.freeze({ info, provider }) }));
  window.addEventListener("eip6963:requestProvider", announce);
  announce();
})();
"""


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class PageWallet:
    """A wallet as a page meets it. `asked`: every method in order. `decline`: the next signature or transaction is
    refused, as by a person."""

    def __init__(self, page: Page, chain: StockChain, wallet: Wallet) -> None:
        self.asked: list[str] = []
        self.signed: list[dict[str, Any]] = []
        self.decline = False
        self._chain = chain
        self._wallet = wallet
        self._chain_id = ELSEWHERE
        self._known = {ELSEWHERE}
        self._allowed = False
        page.expose_function("walletAsked", self._answer)
        page.add_init_script(PROVIDER)

    def _answer(self, method: str, params: str) -> str:
        self.asked.append(method)
        try:
            return json.dumps({"result": self._handle(method, json.loads(params))})
        except Refused as refused:
            return json.dumps({"code": refused.code, "message": refused.message})

    def _handle(self, method: str, params: list[Any]) -> Any:
        handlers: dict[str, Callable[[list[Any]], Any]] = {
            "eth_chainId": lambda _: hex(self._chain_id),
            "eth_requestAccounts": self._connect,
            "eth_accounts": lambda _: [self._wallet.address] if self._allowed else [],
            "wallet_switchEthereumChain": self._switch,
            "wallet_addEthereumChain": self._add,
            "eth_signTypedData_v4": self._sign_typed,
            "personal_sign": self._sign_text,
            "eth_sendTransaction": self._send,
        }
        handler = handlers.get(method)
        if handler is not None:
            return handler(params)
        return self._chain.ask(method, *params)

    def _connect(self, _: list[Any]) -> list[str]:
        self._allowed = True
        return [self._wallet.address]

    def _switch(self, params: list[Any]) -> None:
        wanted = int(params[0]["chainId"], 16)
        if wanted not in self._known:
            raise Refused(UNKNOWN_CHAIN, "Unrecognized chain ID.")
        self._chain_id = wanted

    def _add(self, params: list[Any]) -> None:
        assert params[0]["rpcUrls"], "a chain is added with the URL of a node"
        assert params[0]["chainName"]
        self._known.add(int(params[0]["chainId"], 16))
        self._chain_id = int(params[0]["chainId"], 16)

    def _person(self) -> None:
        if self.decline:
            self.decline = False
            raise Refused(DECLINED, "User rejected the request.")

    def _sign_typed(self, params: list[Any]) -> str:
        typed = json.loads(params[1])
        assert params[0].lower() == self._wallet.address.lower()
        assert typed["domain"]["chainId"] == self._chain_id, "a wallet signs only for the chain it is on"
        self._person()
        self.signed.append(typed)
        numbers = ("value", "validAfter", "validBefore")
        message = {name: int(value) if name in numbers else value for name, value in typed["message"].items()}
        signable = encode_typed_data(full_message={**typed, "message": message})
        return "0x" + Account.sign_message(signable, self._wallet.private_key).signature.hex()

    def _sign_text(self, params: list[Any]) -> str:
        self._person()
        text = bytes.fromhex(params[0][2:])
        self.signed.append({"text": text.decode()})
        return "0x" + Account.sign_message(encode_defunct(text), self._wallet.private_key).signature.hex()

    def _send(self, params: list[Any]) -> str:
        self._person()
        call = params[0]
        ask = self._chain.ask
        transaction = {
            "chainId": self._chain_id,
            "nonce": int(ask("eth_getTransactionCount", self._wallet.address, "pending"), 16),
            "to": call["to"],
            "data": call["data"],
            "value": 0,
            "gas": int(ask("eth_estimateGas", call), 16) * 2,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
        }
        raw = Account.sign_transaction(transaction, self._wallet.private_key).raw_transaction
        return str(ask("eth_sendRawTransaction", "0x" + raw.hex()))
