"""DATABASE_URL with one host and with several, as libpq reads it."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from core.config import Settings, load
from core.db.engine import conninfo
from core.errors import ConfigError

SEVERAL = "postgres://vpm:p%40ss@one:5433,two/vpm?sslmode=require"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_one_host_stays_as_it_is(scheme: str) -> None:
    url = "://vpm:p%40ss%20w%2Frd+%25@one/vpm?sslmode=require"
    assert conninfo(scheme + url) == "postgresql" + url
    assert conninfo_to_dict(conninfo(scheme + url))["password"] == "p@ss w/rd+%"
    assert conninfo(f"{scheme}:///vpm?host=/run/postgresql") == "postgresql:///vpm?host=/run/postgresql"


@pytest.mark.parametrize("url", [SEVERAL, SEVERAL + "&target_session_attrs=prefer-standby"])
def test_of_several_hosts_the_one_that_can_be_written_to_is_wanted(url: str) -> None:
    read = conninfo_to_dict(conninfo(url))
    assert (read["host"], read["port"], read["dbname"]) == ("one,two", "5433,", "vpm")
    assert (read["user"], read["password"], read["sslmode"]) == ("vpm", "p@ss", "require")
    assert read["target_session_attrs"] == ("read-write" if url == SEVERAL else "prefer-standby")


def test_settings_take_several_hosts() -> None:
    assert load(Settings, {"DATABASE_URL": SEVERAL}).database_url.get_secret_value() == SEVERAL


@pytest.mark.parametrize(
    "hosts", ["one:x,two", "one,,two", "one,two:99999", "[::1]:5432,two", "one:5432,"], ids=lambda hosts: hosts
)
def test_a_host_that_is_none_is_refused_by_name_of_the_variable(hosts: str) -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL"):
        load(Settings, {"DATABASE_URL": f"postgresql://vpm:pw@{hosts}/vpm"})
