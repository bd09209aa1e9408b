"""`python -m tests.benchmarks.peers [NAME ...] [--quick]`: try some peers, and print figures without keeping them.

A name is the beginning of a peer's name, in any case. `make bench ARGS=peers` measures all and keeps the figures.
"""

import argparse
import asyncio
import os
import sys

from tests.benchmarks.peers.benchmark import PEERS, QUICK, Effort, compare, finding
from tests.benchmarks.report import CannotRunError, print_table


def main() -> int:
    """Exit code 0 when Outlast, if it was among them, lost nothing and paid nothing twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(peer.name for peer in PEERS))
    parser.add_argument("--quick", action="store_true", help="a few calls only")
    options = parser.parse_args()
    names = tuple(name.lower() for name in options.names)
    chosen = [peer for peer in PEERS if not names or peer.name.lower().startswith(names)]
    if not chosen:
        parser.error(f"there is no peer {options.names[0]!r}; choose from {', '.join(peer.name for peer in PEERS)}")
    try:
        found = asyncio.run(compare(chosen, QUICK if options.quick else Effort()))
    except CannotRunError as error:
        print(error, file=sys.stderr)
        return 1
    shown = finding(found)
    print_table([shown])
    return 0 if shown.is_met else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The SDK's runtime threads may abort at interpreter exit (a known race).
    os._exit(code)
