"""Runs commands of ape's, each in a fork of a process that has imported it already: importing takes four seconds of
processor time, and a deployment is four commands.

`python -m scripts._stack.ape_host`: a line of standard input is the arguments of a command, as JSON; the line that
answers it is its exit code and what it printed. `scripts/_stack/ape.py` talks to it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import ape_node.provider
import ape_test.provider
from ape._cli import cli
from ape.managers import chain
from ape.utils.basemodel import ManagerAccessMixin

from scripts._deploy import base, feeds, pools, stock
from scripts._local.process import die_with_parent

IMPORTED = (chain, ape_node.provider, ape_test.provider, base, feeds, pools, stock)
"""What a command imports when it gets there, and what our scripts are made of."""


def main() -> None:
    list(ManagerAccessMixin.network_manager.ecosystems)  # imports ape's plugins
    for line in sys.stdin:
        code, printed = _run(json.loads(line))
        print(json.dumps({"code": code, "printed": printed}), flush=True)


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    reads, writes = os.pipe()
    dies = die_with_parent()
    pid = os.fork()
    if pid == 0:
        if dies is not None:
            dies()
        for number in (1, 2):
            os.dup2(writes, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 256)
        cli(list(arguments), prog_name="ape")  # ends this process
    os.close(writes)
    with os.fdopen(reads, "rb") as output:
        printed = output.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed


if __name__ == "__main__":
    main()
