"""Which of the addresses in a request is the caller's."""

from __future__ import annotations

import pytest

from api.limits import bucket, forwarded, is_local, network


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], "", id="no header"),
        pytest.param(["203.0.113.9"], "203.0.113.9", id="one"),
        pytest.param(["10.0.0.1, 203.0.113.9"], "203.0.113.9", id="the last of several: the proxy's own"),
        pytest.param(["10.0.0.1", "203.0.113.9"], "203.0.113.9", id="the last line"),
        pytest.param(["10.0.0.1, 10.0.0.2", "10.0.0.3 ,203.0.113.9"], "203.0.113.9", id="the last of the last line"),
        pytest.param(["203.0.113.9:4711"], "203.0.113.9", id="a port"),
        pytest.param(["[2001:db8::1]:4711"], "2001:db8::1", id="IPv6 with a port"),
        pytest.param(["[2001:db8::1]"], "2001:db8::1", id="IPv6 in brackets"),
        pytest.param(["2001:db8::1"], "2001:db8::1", id="IPv6"),
        pytest.param(['"[2001:db8::1]:4711"'], "2001:db8::1", id="quoted"),
    ],
)
def test_the_last_entry_of_the_last_line_is_the_callers(lines: list[str], expected: str) -> None:
    assert forwarded(lines, 1) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["203.0.113.9, 198.51.100.1"], "203.0.113.9", id="what the edge wrote, before the edge's own"),
        pytest.param(["203.0.113.9", "198.51.100.1"], "203.0.113.9", id="one header line each"),
        pytest.param(["10.0.0.1, 203.0.113.9:4711, 198.51.100.1"], "203.0.113.9", id="after the visitor's own words"),
        pytest.param(["10.0.0.1,,", "203.0.113.9, 198.51.100.1"], "203.0.113.9", id="after empty words"),
        pytest.param(["198.51.100.1"], "198.51.100.1", id="who passed the inner proxy alone"),
        pytest.param([], "", id="no header"),
    ],
)
def test_behind_two_proxies_visitors_are_distinguished_by_the_first_header(lines: list[str], expected: str) -> None:
    assert forwarded(lines, 2) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "unknown"),
        ("", "unknown"),
    ],
)
def test_callers_are_counted_by_what_one_customer_has(address: str, expected: str) -> None:
    assert bucket(address) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("203.0.113.9", "203.0.113.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("::ffff:203.0.113.9", "203.0.113.0/24"),
        ("not an address", "unknown"),
    ],
)
def test_what_all_share_is_counted_by_networks(address: str, expected: str) -> None:
    assert network(bucket(address)) == expected


def test_only_the_machine_itself_is_local() -> None:
    assert is_local(bucket("127.0.0.1"))
    assert is_local(network(bucket("127.0.0.1")))
    assert is_local(bucket("::1")) is False  # its /64 is more than the machine
    assert not is_local(bucket("203.0.113.9"))
    assert not is_local(bucket("not an address"))
