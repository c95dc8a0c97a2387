"""docs/operate.md names nothing that does not exist: commands, options, variables, alarms, tables, sections."""

from __future__ import annotations

import re
import shlex

import pytest

import core.db.schema.cup
import core.db.schema.index_agent
import core.db.schema.index_shared
import core.db.schema.index_stock
import core.db.schema.operations
import core.db.schema.outbox
import core.db.schema.payments
from core.config.loading import known_variables
from core.db.schema import metadata
from core.paths import REPOSITORY
from keeper.jobs import BY_NAME
from scripts._status.reindex import OWN, SHARED
from scripts._status.switch import SWITCHES
from scripts._vpm import manual
from scripts._vpm.cli import COMMANDS
from tests.support.alert_rules import alerts

PAGE = REPOSITORY / "docs" / "operate.md"
TEXT = PAGE.read_text()
WITHOUT_BLOCKS = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
# Set by the reader or by the shell of the procedure itself.
OPERATORS = re.compile(
    "(STOCK|BASE)_RPC|OWNER_[123]|OPENER|LISTER|ATTESTER|PUBLISHER|CREDITOR|GUARDIAN|RELAYER_1|DEPLOYMENT_FILES|SEND|STRIKE|FINAL"
)


def _commands() -> list[list[str]]:
    """Return every `./vpm ...` and `ape run ...` of blocks and sentences, as words."""
    found = []
    for block in BLOCKS:
        joined = block.replace("\\\n", " ")
        found += re.findall(r"(?:\./vpm|ape run)[^\n|&;>]*", joined)
    found += re.findall(r"`((?:\./vpm|ape run) [^`]*)`", WITHOUT_BLOCKS.replace("\n", " "))
    return [shlex.split(re.sub(r"\$\{SEND:-\}|\s*&$", "", one)) for one in found]


COMMANDS_NAMED = _commands()


@pytest.mark.parametrize("words", COMMANDS_NAMED, ids=lambda words: " ".join(words)[:60])
def test_every_command_and_option_exists(words: list[str]) -> None:
    if words[0] == "./vpm":
        name = words[1]
        assert name in COMMANDS
        assert name in manual.COMMANDS
        source = manual.COMMANDS[name][1]
    else:
        script = REPOSITORY / "scripts" / f"{words[2]}.py"
        assert script.exists(), words
        shared = [REPOSITORY / "scripts" / "_deploy" / name for name in ("command.py", "flow.py")]
        source = "".join(path.read_text() for path in (script, *shared)) + '"--network"'
    for option in (word for word in words if word.startswith("--")):
        assert option in source, f"{' '.join(words[:3])} has no {option}"


def test_every_word_that_chooses_is_one_of_the_choices() -> None:
    choices = {"reindex": set(OWN), "switch": set(SWITCHES), "run-once": set(BY_NAME)}
    seen = set()
    for words in COMMANDS_NAMED:
        for at, word in enumerate(words[:-1]):
            if word in choices and words[0] == "./vpm" and not words[at + 1].isupper():
                assert words[at + 1] in choices[word], " ".join(words)
                seen.add(word)
    assert seen == set(choices)


def test_every_command_is_in_the_manual_and_the_other_way_round() -> None:
    assert set(manual.COMMANDS) == set(COMMANDS)


def test_every_variable_exists() -> None:
    named = set(re.findall(r"\b((?:VPM|DATABASE)_[A-Z_]+|CRON_SECRET)\b", TEXT))
    assert not {name for name in named if name not in known_variables()}
    used = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", TEXT))
    assert not {name for name in used - set(known_variables()) if not OPERATORS.fullmatch(name)}


def test_every_alarm_is_in_its_section() -> None:
    sections, names = _sections(), {alert.name for alert in alerts()}
    for alert in alerts():
        anchor = alert.runbook.partition("#")[2]
        assert alert.name in sections[anchor], f"#{anchor} does not name {alert.name}"
    assert set(re.findall(r"\bVpm[A-Z]\w+", TEXT)) <= names


def _sections() -> dict[str, str]:
    parts = re.split(r"^#{2,4} (.+)$", TEXT, flags=re.MULTILINE)
    titles, bodies = parts[1::2], parts[2::2]
    return {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-"): body
        for title, body in zip(titles, bodies, strict=True)
    }


def test_every_table_is_said_to_be_cache_or_record() -> None:
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", _sections()["backup-and-restore"], re.MULTILINE)
    patterns = [pattern for names, _ in rows for pattern in re.findall(r"`([a-z_*]+)`", names)]
    for table in metadata.tables:
        assert any(re.fullmatch(pattern.replace("*", ".*"), table) for pattern in patterns), f"{table} is in no row"
    records = [pattern for names, what in rows if "record" in what for pattern in re.findall(r"`([a-z_*]+)`", names)]
    assert {"cup_*", "agent_webhook*", "agent_event*", "outbox_*", "operator_switch"} <= set(records)


def test_reindex_forgets_all_that_is_read_of_a_chain_and_nothing_else() -> None:
    """A new projection table must be added to scripts/_status/reindex.py, or its rows would survive."""
    index_tables = {
        name
        for name in metadata.tables
        if name.startswith(("chain_", "stock_", "oracle_", "token_"))
        or (name.startswith("agent_") and name in core.db.schema.index_agent.__dict__)
    }
    covered = {*SHARED, "chain_cursor", *OWN["base"], *OWN["stock"]}
    assert covered <= set(metadata.tables)
    assert index_tables - covered == {"chain_audit"}
    assert not covered & {name for name in metadata.tables if name.startswith(("cup_", "outbox_", "keeper_", "relay_"))}


def test_switches_are_those_that_are_read() -> None:
    from core.cup.ledger import HALT_SWITCH
    from core.db.switches import TRADING_PAUSED

    assert set(SWITCHES) == {TRADING_PAUSED, HALT_SWITCH}
