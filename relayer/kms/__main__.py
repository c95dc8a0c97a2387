"""`python -m relayer.kms NAME...`: print the address of each key, after a test signature."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from core.config import RelayerSecrets, RelayerSettings, load
from core.errors import VpmError
from relayer.keys import open_kms_keys
from relayer.kms.signer import KmsPatience


async def addresses(names: Sequence[str]) -> list[str]:
    """Return the keys' addresses, using the relayer's credentials and settings; raise ConfigError if a key cannot be
    used."""
    keystores = load(RelayerSecrets, {"VPM_RELAYER_KEYSTORES": ",".join(names)}).keystore_files
    options = load(RelayerSettings)
    patience = KmsPatience(options.kms_at_once, options.kms_patience_seconds)
    async with open_kms_keys(keystores, patience) as keys:
        return [each.signer.label for each in keys]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m relayer.kms",
        description="Print the addresses of keys in a key service, and check that they sign.",
    )
    parser.add_argument("name", nargs="+", help="aws-kms://REGION/alias/NAME")
    try:
        print("\n".join(asyncio.run(addresses(parser.parse_args().name))))
    except VpmError as error:
        print(error.sentence(), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
