"""Migrations: from empty to the declared schema exactly, once, by one migrator at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from core.db import migrate as migration
from core.db.migrate import check_schema, current, migrate
from core.db.migrations import tables
from core.errors import SchemaOutdated
from tests.conftest import TestPostgres

VERSIONS = Path(migration.__file__).parent / "migrations" / "versions"


@pytest.fixture
def empty(postgres: TestPostgres) -> Any:
    url = postgres.create(migrated=False)
    yield url
    postgres.drop(url)


def _engine(url: str) -> sa.Engine:
    return sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)


def _add_migrations(monkeypatch: pytest.MonkeyPatch, folder: Path, **statements: str) -> None:
    for area, statement in statements.items():
        (folder / f"{area}_0001_probe.py").write_text(
            f'from alembic import op\nrevision = "{area}_0001"\ndown_revision = None\n'
            f'branch_labels = ("{area}",)\ndepends_on = "core_0001"\n'
            f'def upgrade() -> None:\n    op.execute("{statement}")\n'
        )
    config = migration._config()
    config.set_main_option("version_locations", f"{VERSIONS}:{folder}")
    monkeypatch.setattr(migration, "_config", lambda: config)


def test_the_baseline_is_made_from_the_declared_tables() -> None:
    assert tables.TABLES.read_text() == tables.rendered(), "run `python -m core.db.migrations.tables`"


def test_a_second_run_changes_nothing(empty: str) -> None:
    first = migrate(empty)
    assert first
    with _engine(empty).connect() as connection:
        check_schema(connection)
    assert migrate(empty) == first


def test_two_migrators_at_once_both_succeed(empty: str) -> None:
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(migrate(empty))
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(str, outcomes))) == 1
    assert isinstance(outcomes[0], tuple)


def test_an_older_database_is_refused_with_the_command_to_run(empty: str) -> None:
    with (
        _engine(empty).connect() as connection,
        pytest.raises(SchemaOutdated, match=r"older than this code.*core_0001") as e,
    ):
        check_schema(connection)
    assert "migrate" in e.value.sentence()


def test_a_newer_database_serves_the_version_before_and_is_left_as_it_is(empty: str) -> None:
    """As after a rollback: only the newest revision of a line is recorded, and this code does not know it."""
    migrate(empty)
    with psycopg.connect(empty) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'future_0001'")
    with _engine(empty).connect() as connection:
        check_schema(connection)
    assert migrate(empty) == ("future_0001",)


def test_an_area_of_its_own_joins_without_touching_another_file(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add_migrations(monkeypatch, tmp_path, probe="CREATE TABLE probe (id int)", other="CREATE TABLE other (id int)")
    applied = migrate(empty)
    assert {"probe_0001", "other_0001"} <= set(applied)
    with _engine(empty).connect() as connection:
        check_schema(connection)
        assert set(current(connection)) == set(applied)
        assert connection.scalar(sa.text("SELECT count(*) FROM probe")) == 0


def test_a_busy_table_is_waited_for_only_briefly(empty: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    migrate(empty)
    _add_migrations(monkeypatch, tmp_path, probe="ALTER TABLE operator_switch ADD COLUMN probe integer")
    monkeypatch.setattr(migration, "LOCK_TIMEOUT_MS", 300)
    reader = psycopg.connect(empty)
    reader.execute("SELECT * FROM operator_switch")
    release = threading.Timer(1.0, reader.close)
    release.start()
    try:
        assert "probe_0001" in migrate(empty)
    finally:
        release.join()
