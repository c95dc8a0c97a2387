"""The static scan finds what tests say they prove, in every form, and names what it cannot read."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.requirements.proofs import Proof, Scan, scan, thorough


def scanned(root: Path, name: str, text: str) -> Scan:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return scan(root)


def test_python_marks_in_every_place(tmp_path: Path) -> None:
    found = scanned(
        tmp_path,
        "tests/api/test_quote.py",
        """
        import pytest
        from tests.requirements.plugin import proves
        pytestmark = [pytest.mark.anyio, pytest.mark.proves("m.module")]
        CASES: list = [pytest.param(1, marks=pytest.mark.proves("m.table"))]

        @pytest.mark.proves("m.one", "m.two")
        def test_plain(): ...

        @pytest.mark.parametrize("x", [pytest.param(1, marks=[pytest.mark.proves("m.param")])])
        async def test_param(x): ...

        @pytest.mark.parametrize("x", CASES)
        def test_table(x): ...

        @pytest.mark.proves("m.class")
        class TestGroup:
            @proves("m.alias")
            def test_inside(self): ...
        """,
    )
    file = "tests/api/test_quote.py"
    assert found.faults == ()
    assert set(found.proofs) == {
        *(Proof("m.module", f"{file}::{test}") for test in ("test_plain", "test_param", "test_table")),
        Proof("m.module", f"{file}::TestGroup::test_inside"),
        Proof("m.one", f"{file}::test_plain"),
        Proof("m.two", f"{file}::test_plain"),
        Proof("m.param", f"{file}::test_param"),
        Proof("m.table", f"{file}::test_table"),
        Proof("m.class", f"{file}::TestGroup::test_inside"),
        Proof("m.alias", f"{file}::TestGroup::test_inside"),
    }


def test_what_is_thorough_proves_nothing_in_an_ordinary_run(tmp_path: Path) -> None:
    found = scanned(
        tmp_path,
        "tests/test_x.py",
        """
        import pytest

        @pytest.mark.thorough
        @pytest.mark.proves("m.test")
        def test_alone(): ...

        @pytest.mark.parametrize("x", [
            pytest.param(1, marks=[pytest.mark.proves("m.one")]),
            pytest.param(2, marks=[pytest.mark.proves("m.two"), pytest.mark.thorough]),
        ])
        def test_param(x): ...

        @pytest.mark.proves("m.all")
        @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.thorough)])
        def test_all(x): ...

        class TestGroup:
            pytestmark = pytest.mark.thorough

            @pytest.mark.proves("m.class")
            def test_inside(self): ...
        """,
    )
    assert found.faults == ()
    assert set(found.proofs) == {
        Proof("m.test", "tests/test_x.py::test_alone", ordinary=False),
        Proof("m.one", "tests/test_x.py::test_param"),
        Proof("m.two", "tests/test_x.py::test_param", ordinary=False),
        Proof("m.all", "tests/test_x.py::test_all", ordinary=False),
        Proof("m.class", "tests/test_x.py::TestGroup::test_inside", ordinary=False),
    }
    assert thorough(tmp_path / "tests" / "test_x.py") == {"test_alone", "test_all", "test_inside"}


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.proves("a.b")\ndef helper(): ...',
        '@pytest.mark.skip(reason="later")\n@pytest.mark.proves("a.b")\ndef test_skipped(): ...',
        '@pytest.mark.xfail\n@pytest.mark.proves("a.b")\ndef test_expected_to_fail(): ...',
        'pytestmark = [pytest.mark.skip, pytest.mark.proves("a.b")]\ndef test_in_skipped_module(): ...',
        '@pytest.mark.skip\nclass TestX:\n    @pytest.mark.proves("a.b")\n    def test_in_skipped_class(self): ...',
        'CASES = [pytest.param(1, marks=pytest.mark.proves("a.b"))]\ndef test_that_does_not_use_it(): ...',
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=[pytest.mark.skip, pytest.mark.proves("a.b")])])\n'
        "def test_skipped_parameter(x): ...",
    ],
)
def test_a_proof_on_nothing_that_runs_is_a_fault(tmp_path: Path, source: str) -> None:
    found = scanned(tmp_path, "tests/test_x.py", "import pytest\n" + source)
    assert found.proofs == ()
    assert len(found.faults) == 1
    assert "on no test that runs" in found.faults[0]


@pytest.mark.parametrize("arguments", ["IDS", 'f"a.{x}"', "*IDS"])
def test_ids_that_are_not_literals_are_a_fault(tmp_path: Path, arguments: str) -> None:
    found = scanned(tmp_path, "tests/test_x.py", f"@pytest.mark.proves({arguments})\ndef test_x(): ...")
    assert found == Scan((), ("tests/test_x.py:1: proves() takes literal ids",))


def test_a_file_that_is_not_python_is_a_fault(tmp_path: Path) -> None:
    found = scanned(tmp_path, "tests/test_x.py", "# proves\ndef test_x(:\n")
    assert found == Scan((), ("tests/test_x.py:2: not Python: invalid syntax",))


def test_a_conditional_skip_still_counts(tmp_path: Path) -> None:
    source = '@pytest.mark.skipif(NO_BROWSER, reason="x")\n@pytest.mark.proves("a.b")\ndef test_x(): ...'
    assert scanned(tmp_path, "tests/test_x.py", source) == Scan((Proof("a.b", "tests/test_x.py::test_x"),), ())


def test_solidity_comments_belong_to_the_next_test(tmp_path: Path) -> None:
    found = scanned(
        tmp_path,
        "tests/contracts/forge/Enter.t.sol",
        """
        contract EnterTest {
            /// proves: stock.a.b, stock.c.d
            // proves: stock.e.*
            function test_enter_refusesPaused() public {}
            function helper() internal {}
            /* proves: stock.f.g */
            function invariant_solvent() public {}
            // proves: stock.h.i
        }
        """,
    )
    file = "tests/contracts/forge/Enter.t.sol"
    assert {(proof.pattern, proof.test) for proof in found.proofs} == {
        ("stock.a.b", f"{file}::test_enter_refusesPaused"),
        ("stock.c.d", f"{file}::test_enter_refusesPaused"),
        ("stock.e.*", f"{file}::test_enter_refusesPaused"),
        ("stock.f.g", f"{file}::invariant_solvent"),
    }
    assert found.faults == (f"{file}:9: no test follows the proof of stock.h.i",)


def test_typescript_comments_belong_to_the_next_test(tmp_path: Path) -> None:
    found = scanned(
        tmp_path,
        "tests/clients/x402.test.ts",
        """
        // proves: agent.trade.payment.decision.official_clients
        test("the official client's flow", async () => {});
        """,
    )
    assert found.faults == ()
    assert found.proofs == (
        Proof(
            "agent.trade.payment.decision.official_clients", "tests/clients/x402.test.ts::the official client's flow"
        ),
    )


def test_only_test_sources_of_the_project_are_read(tmp_path: Path) -> None:
    mark = '@pytest.mark.proves("a.b")\ndef test_x(): ...'
    for name in ("tests/cases.py", "tests/node_modules/test_x.py", "scripts/test_x.py"):
        assert scanned(tmp_path, name, mark) == Scan((), ())
