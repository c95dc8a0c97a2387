"""What stands of a deployment that is under way: a file beside the one that will record it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from core.contracts.deployments import ContractInfo
from core.errors import DeploymentError


class Journal:
    """The journal of one deployment: who sends and from which nonce on, then each thing as soon as it stands.

    It is gone once everything is recorded. One that lies there tells of a deployment that broke off; with the nonce
    even a contract can be found that was sent and not noted any more.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.unfinished")
        self.contracts: dict[str, ContractInfo] = {}

    def refuse_another(self) -> None:
        if self.path.exists():
            raise DeploymentError(
                f"{self.path} tells what stands of a deployment that broke off; none of it is recorded or to be used.",
                hint="Move that file away and keep it, then deploy anew; its Safe may be given with --safe.",
            )

    def begin(self, chain_id: int, sender: Any) -> None:
        """Before anything is sent. Of two that begin at once, one is refused."""
        first_nonce = int(sender.nonce)
        try:
            self.path.touch(exist_ok=False)
        except FileExistsError:
            self.refuse_another()
        except OSError as error:
            raise DeploymentError(f"{self.path} cannot be written: {error.strerror}.") from None
        self._note(chainId=chain_id, deployer=str(sender.address), firstNonce=first_nonce)

    def safe_stands(self, address: str) -> None:
        self._note(safe=address)

    def stands(self, name: str, contract: ContractInfo) -> None:
        self.contracts[name] = contract
        self._note(contract=name, **contract.model_dump(mode="json", by_alias=True))

    def end(self) -> None:
        self.path.unlink()

    def _note(self, **what: object) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(what) + "\n")
            file.flush()
            os.fsync(file.fileno())
