"""What is kept to be asked for again, and what is forgotten."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from api.kept import Kept


def test_the_one_asked_for_least_lately_goes_first() -> None:
    kept: Kept[str, int] = Kept(2, 100)
    assert kept.put("a", 1, 10) == []
    assert kept.put("b", 2, 10) == []
    assert kept.get("a") == 1
    assert kept.put("c", 3, 10) == ["b"]
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)


def test_together_they_take_no_more_than_there_is_room_for() -> None:
    kept: Kept[str, int] = Kept(100, 100)
    for name in "abcd":
        kept.put(name, 0, 30)
    assert [name for name in "abcd" if kept.get(name) is not None] == ["b", "c", "d"]
    assert kept.put("e", 0, 95) == ["b", "c", "d"]


def test_the_newest_stays_however_large_it_is() -> None:
    kept: Kept[str, int] = Kept(100, 100)
    kept.put("a", 0, 30)
    assert kept.put("b", 1, 1_000) == ["a"]
    assert kept.get("b") == 1


def test_what_is_put_again_takes_its_new_size() -> None:
    kept: Kept[str, int] = Kept(100, 100)
    kept.put("a", 0, 90)
    kept.put("a", 0, 10)
    assert kept.put("b", 0, 90) == []
    kept.drop("b")
    kept.drop("never there")
    assert kept.put("c", 0, 90) == []
    assert len(list(kept.values())) == 2


@given(
    st.integers(1, 5),
    st.integers(0, 50),
    st.lists(st.tuples(st.sampled_from(["get", "put", "drop"]), st.integers(0, 7), st.integers(0, 40)), max_size=60),
)
def test_it_keeps_what_a_plain_account_of_it_says(most: int, room: int, steps: list[tuple[str, int, int]]) -> None:
    kept: Kept[int, int] = Kept(most, room)
    plain: OrderedDict[int, int] = OrderedDict()  # by key, its size
    for what, key, size in steps:
        if what == "get":
            assert kept.get(key) == plain.get(key)
            if key in plain:
                plain.move_to_end(key)
        elif what == "drop":
            kept.drop(key)
            plain.pop(key, None)
        else:
            plain.pop(key, None)
            plain[key] = size
            gone = []
            while len(plain) > 1 and (len(plain) > most or sum(plain.values()) > room):
                gone.append(plain.popitem(last=False)[0])
            assert kept.put(key, size, size) == gone
    assert len(list(kept.values())) == len(plain)
    assert all(kept.get(key) == size for key, size in plain.items())
