"""The manual: `./vpm --help` and `./vpm COMMAND --help`. Standard library only: it must answer before any set-up."""

from __future__ import annotations

import sys


def _here(what: str = "it") -> str:
    """Where a command looks that was given no settings (scripts/_stack/found.py)."""
    return f"""

Where none of DATABASE_URL, VPM_BASE_RPC_URLS, VPM_STOCK_RPC_URLS and VPM_DEPLOYMENTS_DIR is set,
{what} is about the local stack that runs in this checkout with the usual state folder, and says so."""


OVERVIEW = """\
vpm - on-chain-first prediction markets, on one origin

    ./vpm up          start the whole product on this machine
    ./vpm test        test every promise of the specifications; --thorough: everything, as CI does

Needs Python 3.11 to 3.13 with venv, git and the package registries; no root. The first start makes its own environment
inside the checkout (.vpm/env, node_modules); later starts take seconds. ./vpm COMMAND --help tells the rest.

COMMANDS
"""

COMMANDS: dict[str, tuple[str, str]] = {
    "up": (
        "start the local stack: PostgreSQL, two chains, contracts, daemons",
        """\
./vpm up [--port N] [--state DIR] [--ready-file PATH] [--no-demo]
         [--fork-base URL] [--fork-stock URL]

Starts an embedded PostgreSQL (or uses DATABASE_URL), two local chains (8453 "base" and 4663 "stock") on free ports,
applies the migrations, deploys the contracts with ape, starts the daemons, and prints one screen that says what runs
where and what to try. Ctrl-C or SIGTERM stops everything it started. If a part ends by itself, the stack names it,
stops the rest and ends with a non-zero exit code.

  --port N            the product's HTTP port (default 8400)
  --state DIR         where the database, the chains and the logs live (default .vpm/state); two stacks with different
                      ports and state folders run side by side
  --ready-file PATH   write JSON when ready: base_url, database_url, rpc, chains, addresses, dev_wallets, cron_secret,
                      metrics
  --no-demo           no demo traffic
  --fork-base URL     fork the live Base chain instead of the local genesis
  --fork-stock URL    fork the live stock chain instead of the local genesis

To start over, stop the stack and delete the state folder.""",
    ),
    "test": (
        "test every promise of the specifications; --thorough: everything, as CI does",
        """\
./vpm test [--quick | --thorough] [--only STAGE]... [--list] [-- PYTEST_ARGS...]
./vpm test PATH... [-- PYTEST_ARGS...]

Lint, types, import rules, Solidity format, contract tests (forge), Python tests on a real PostgreSQL and forked local
chains, and browser tests where Chromium is installed; then one summary. Exit code 0 only if every stage passed. The
tests share twice as many processes as there are cores, and one more. Browser tests and programs such as mypy and forge
run at the same time; what each of them says is shown when it has ended.

  PATH                run just this: a Python or Solidity test file, a folder, or a test as file.py::name
  --quick             lint, types, import rules and unit tests: what needs no chain, database or compiler
  --thorough          what CI runs: also tests that show a promise again, from more clients, beside deaths, on whole
                      services, by theorems and over random courses
  --only STAGE        run only this stage, whole (repeatable); --list names them
  -- PYTEST_ARGS      handed to pytest

Environment: VPM_TEST_DATABASE_URL uses a running PostgreSQL; VPM_TEST_FORK_BASE and VPM_TEST_FORK_STOCK run the
contract suites against forks of live chains; VPM_TEST_LONG=1 runs the long campaigns.""",
    ),
    "migrate": (
        "bring the database in DATABASE_URL to the current schema",
        "./vpm migrate",
    ),
    "deploy": (
        "deploy the contracts of one network with ape",
        """\
./vpm deploy stock|base [ape options]

Runs scripts/deploy_stock.py or scripts/deploy_base.py through ape: a dry run by default on a live network, and never
over an existing deployment file. docs/operate.md has the whole procedure.""",
    ),
    "bench": (
        "measure the API, gas, the indexer, the relayer, trades, the cup, growth and the stack",
        """\
./vpm bench api|cup|gas|growth|index|relay|stack|trade [--json FILE] [--quick]

api     cached reads against a bare handler that returns the same bytes, p99 and memory
cup     the leaderboard with 100,000 wallets, signed trades, and a round of 20,000 bets
gas     the execution gas of every call in the gas tables, beside the best known figure; fails when a row is over
growth  every read of the API over years of history, against a day of it
index   the indexer over 200,000 events against a bare fetch-decode-copy loop
relay   one lane against a bare loop that sends presigned transactions one at a time
stack   from a fresh clone to the first screen, a second start, and the memory of all that runs
trade   a paid trade from payment to receipt, against a bare send to the same chain

Each prints our figure, the baseline's and their ratio where there is one, and the target. Exit code 1: a target is
missed.

  --json FILE  also write the figures to a file
  --quick      the smallest form, to see that it runs; its figures say little

Compare ratios with those of other runs, never the figures themselves: machines differ, and one machine from hour to
hour.""",
    ),
    "screenshots": (
        "take the pictures in docs/pages again",
        "./vpm screenshots\n\nOf the site the browser tests use, started for it; needs a Chromium on the machine.",
    ),
    "indexer": ("follow the chains into the database", "./vpm indexer\n\nA daemon; settings: ./vpm config."),
    "relayer": (
        "send the transactions that the others ask for",
        "./vpm relayer\n\nA daemon, and the only one that holds keys; see docs/relayer.md.",
    ),
    "keeper": (
        "list, resolve and deliver on schedule",
        """\
./vpm keeper
./vpm keeper run-once JOB [--dry-run] [--json]

A daemon; settings: ./vpm config. 'run-once' does one job now and reports what it asked for, what it left alone, and
why. docs/keeper.md lists the jobs.

  --dry-run  ask for nothing: say what would be asked for
  --json     print the report as JSON"""
        + _here("'run-once'"),
    ),
    "api": ("serve the HTTP surfaces", "./vpm api [--workers N]\n\nA daemon; settings: ./vpm config."),
    "rebuild": (
        "refold every projection from the raw logs",
        """\
./vpm rebuild [--chain base|stock]

Empties the projections of each chain in the database of DATABASE_URL and folds them again from the raw logs that are
there, totals too. Nothing is fetched. ./vpm audit compares the result with the chain.

  --chain NAME  only this chain"""
        + _here(),
    ),
    "audit": (
        "compare raw logs, every row, totals and views with the chain",
        """\
./vpm audit [--chain base|stock]

Asks a node for all logs again and compares the stored ones with them, then every column of every row with what the
logs make, then totals with sums, and, where all of that agrees, the rows with the contracts' views: a page at a time,
each at the block that the tables have reached then. What differs is listed with table, row, column
and block.

  --chain NAME  only this chain

Exit code 0: nothing differs; 1: something does; 69 or 78: it cannot be compared, for want of a node, the database or a
setting, which says nothing either way."""
        + _here(),
    ),
    "status": (
        "one look at everything that runs",
        """\
./vpm status [--ready FILE] [--database URL] [--json]

Daemons and who leads, chains and lags, lanes with balances, queues, jobs, last audits, switches; then, as sentences,
what needs a look. It reads PostgreSQL and changes nothing. Each daemon's /health, /metrics and the Grafana board show
the rest.

  --ready FILE    the ready file of a local stack, which names its database
  --database URL  PostgreSQL, instead of DATABASE_URL
  --json          everything as JSON

Exit code 0: nothing needs a look; 1: something does; 2: the database cannot be read."""
        + _here("a look without --ready and --database"),
    ),
    "switch": (
        "turn an operator's switch on or off",
        """\
./vpm switch [NAME on|off] [--reason TEXT] [--by WHO]

Lists the switches, or turns one in the database of DATABASE_URL. Every process sees a change within two seconds.

  trading_paused  on: every trade of the agent API is refused with 503, simulated ones too
  cup_halted      on: real trades and bets in the tournament are refused of every wallet that is not enrolled, and of
                  the operator's own fleets in any case
  --reason TEXT   for whoever reads ./vpm status
  --by WHO        who turned it; your login name if left out"""
        + _here(),
    ),
    "reindex": (
        "read one chain again from its first block",
        """\
./vpm reindex base|stock --yes

For a chain that replaced blocks beyond finality. It empties the cache tables of that chain, and no others, so that the
indexer reads the chain again when it is started. Refuses while an indexer follows the chain. docs/operate.md, "The
index is halted", has the whole procedure."""
        + _here(),
    ),
    "prove": (
        "prove the contracts' theorems, for every value at once",
        """\
./vpm prove [NAME...] [--quick] [--list] [--guards]

Proves each theorem about the contracts with Halmos, which runs the compiled code on symbols instead of numbers, and the
lemmas under tests/contracts/proofs/lemmas with Z3. Prints each with its bounds, its time and its result; anything but
"proved" is a failure: a counterexample, a time that ran out, a loop not followed to its end, premises that contradict
each other. The first run installs the provers in an environment of their own (.vpm/env/prove). What the theorems come
to together: docs/mechanism.md.

  NAME      only theorems whose name begins with this
  --quick   only those that ./vpm test --thorough proves as well
  --list    list them and prove nothing
  --guards  take each guard out of a copy of the contracts and see its theorem refuted""",
    ),
    "verify": (
        "check what the service says against a node",
        """\
./vpm verify SUBJECT [--rpc URL] [--deployments DIR] [--service URL] [--attester ADDRESS] [--block N] [--json]
./vpm verify cup FILE

SUBJECT is a JSON file, a URL, a path of the service (with --service) or an id: a trade receipt, a 402 challenge, a
trade proof, a result or positions of the agent API; a relay answer, a market, positions or the proof page of the stock
markets; a trade id, an agent market's id, a stock market's or position's number. The proof page speaks of both chains:
a node of Base checks what it says of SettlementWallet, one of the stock chain the rest.

Nothing is asked but the node: books are folded again from the logs, the rounds in effect found again, outcomes, payouts
and deliveries worked out, and signatures recovered. Each claim is listed with whether it holds and the call that shows
it. Addresses come from the deployment files. 'cup FILE' recomputes the tournament from an answer of
/api/cup/v1/export.

  --rpc URL           a node of the chain it is about; else the first in VPM_BASE_RPC_URLS or VPM_STOCK_RPC_URLS
  --deployments DIR   the folder of deployment files; else VPM_DEPLOYMENTS_DIR, else deployments/ of this checkout
  --service URL       where a path such as /api/proof is fetched; else VPM_PUBLIC_URL
  --attester ADDRESS  who has to have signed offers and receipts, as the service publishes it
  --block N           read the chain at this block
  --json              the claims as JSON

Exit code 0: everything holds; 1: something does not; 2: it cannot be asked; 3: nothing fails, but something cannot be
told from the chain."""
        + _here("a check without --rpc"),
    ),
    "feed": (
        "what it costs to move a pool's price, and what may stand on it; record a feed's readings",
        """\
./vpm feed cost POOL [POOL] [--rpc URL] [--window SECONDS] [--sigma PERCENT] [--own-share PERCENT]
                [--quote TOKEN] [--deployments DIR] [--json]
./vpm feed record [FEED...] [--since TIME] [--rpc URL] [--keystore FILE] [--deployments DIR] [--dry-run]

'cost' reads a live pool of a token and USDC, or one of the token and WETH and then one of WETH and USDC, and prints
what moving its mean price costs, while nobody arbitrages and where every block is arbitraged; what pushing its
liquidity out of range costs; and the most that a market on it may hold. docs/pool-feeds.md explains each number.

  --rpc URL            a node of the chain; else the first in VPM_BASE_RPC_URLS
  --window SECONDS     of the feed (default 1800)
  --sigma PERCENT      volatility for a year, instead of what the pools' own past shows
  --own-share PERCENT  of the depth that may be one attacker's own (default 50)
  --quote TOKEN        the token that counts as one USD; else USDC of the chain's deployment file

'record' brings to the chain the readings of pool feeds that open markets wait for, with anybody's key: whoever records
a reading gets the same number. Everything comes from the node and the deployment file.

  FEED                 like BNKR/market_cap; every pool feed of the deployment file if left out
  --since TIME         every reading since then, whether or not a market waits for it: 90m, 12h, 2d or an ISO time
  --keystore FILE      the key that pays for the gas; its password is asked for, or in VPM_RECORDER_KEYSTORE_PASSWORD.
                       Without it the key is in VPM_RECORDER_KEY
  --dry-run            say what is due and send nothing; needs no key

Exit code 0: shown, or recorded; 2: it cannot be."""
        + _here("'cost' or 'record' without --rpc"),
    ),
    "config": ("list every setting, or check them with --check", "./vpm config [--check]"),
}


def text(command: str | None = None) -> str:
    if command in COMMANDS:
        return COMMANDS[command][1]
    width = max(map(len, COMMANDS))
    rows = [f"    {name:<{width}}  {short}" for name, (short, _) in COMMANDS.items()]
    return OVERVIEW + "\n".join(rows)


def answered(argv: list[str]) -> int | None:
    """The exit code where a command line asks only for help, or for a command that there is not; None where it is one
    to be run."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(text(argv[1] if len(argv) > 1 else None))
        return 0
    if argv[0] not in COMMANDS:
        print(f"vpm: there is no command '{argv[0]}'. --help lists them.", file=sys.stderr)
        return 2
    if "--help" in argv[1:] or "-h" in argv[1:]:
        print(text(argv[0]))
        return 0
    return None
