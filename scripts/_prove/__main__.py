"""`./vpm prove`: prints each theorem with its bounds, its time and its result."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from core.paths import REPOSITORY
from scripts._prove import provers
from scripts._prove.provers import REFUTED, Copy, Outcome, Theorem, read_theorems
from scripts._vpm.bootstrap import SetupError


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="vpm prove", add_help=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--guards", action="store_true")
    args = parser.parse_args(argv)
    prefixes = tuple(args.names) or ("",)
    chosen = [each for each in read_theorems() if each.name.startswith(prefixes) and (each.quick or not args.quick)]
    if not chosen:
        parser.error("no theorem has such a name; --list shows them")
    if args.list:
        for theorem in chosen:
            print(_describe(theorem))
        return 0
    try:
        provers.prepare()
        return check_guards(chosen) if args.guards else prove(chosen)
    except (SetupError, provers.BuildFailed) as error:
        print(f"vpm prove: {error}", file=sys.stderr)
        return 1


def _describe(theorem: Theorem) -> str:
    lines = textwrap.wrap(theorem.statement, 110) + textwrap.wrap(f"for {theorem.bounds}", 110)
    return "\n".join([f"{theorem.name}  ({theorem.proof})", *(f"    {line}" for line in lines)])


def prove(theorems: Sequence[Theorem]) -> int:
    started = time.monotonic()
    count = failed = 0
    for outcome in outcomes(theorems, REPOSITORY):
        count += 1
        failed += not outcome.proved
        print(f"{outcome.result:<8} {outcome.seconds:7.2f} s  {_describe(outcome.theorem)}", flush=True)
        if outcome.why:
            print(textwrap.indent(outcome.why, "    | "), flush=True)
    print(f"theorems: {count - failed} proved, {failed} not proved, in {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def outcomes(theorems: Iterable[Theorem], project: Path) -> Iterable[Outcome]:
    """Yield the results of theorems. Theorems are proved one at a time, but the quick theorems of a contract are proved
    in one run."""
    theorems = sorted(theorems, key=_group)
    if not all(theorem.is_lemma for theorem in theorems):
        provers.build(project)
    for run, group in groupby(theorems, _group):
        batch = list(group)
        yield from provers.prove(batch, project) if run else map(provers.prove_lemma, batch)


def _group(theorem: Theorem) -> str:
    if theorem.is_lemma:
        return ""
    return theorem.contract if theorem.quick else theorem.proof


def check_guards(theorems: Sequence[Theorem]) -> int:
    """Check that every theorem is refuted when any one of its guards is removed. Return 0 if so, else 1."""
    copy = Copy()
    guards = [(theorem, guard) for theorem in theorems for guard in theorem.guards]
    missed = 0
    for theorem, guard in guards:
        outcome = copy.prove_without(guard, theorem)
        missed += outcome.result != REFUTED
        verdict = "refuted" if outcome.result == REFUTED else f"NOT REFUTED ({outcome.result})"
        print(f"{verdict:<12} {outcome.seconds:6.2f} s  {theorem.name:<28} without: {guard.code}", flush=True)
        if outcome.result != REFUTED and outcome.why:
            print(textwrap.indent(outcome.why[-800:], "    | "), flush=True)
    print(f"guards: {len(guards) - missed} theorems refuted without their guard, {missed} still proved")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
