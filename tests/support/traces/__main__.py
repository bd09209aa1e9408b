"""`python -m tests.support.traces [--share N]`: replay all recorded calls (an hour), or those of every Nth entry, and
write the table of docs/mcp-servers.md.
"""

import argparse
import asyncio
import os
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.traces.replay import ALL, TRACES, Replay

_PAGE = ROOT / "docs" / "mcp-servers.md"
_BETWEEN = re.compile(r"(?<=<!-- traces: begin -->\n).*?(?=<!-- traces: end -->)", re.DOTALL)


def main() -> int:
    """Return 0 if nothing was lost, repeated, or reordered."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.traces", description=__doc__)
    parser.add_argument("--share", type=int, default=1, metavar="N", help="replay every Nth entry (default 1: all)")
    effort = replace(ALL, share=parser.parse_args().share)
    problem = TRACES.install()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="outlast-traces-"))
    print(f"Logs and databases are in {folder}, and stay there after a failure.", file=sys.stderr)
    report = asyncio.run(Replay(folder, effort).run())
    print(report.table())
    for wrong in (*report.worlds_that_differ, *report.out_of_order, *report.wrong_answers):
        print(wrong, file=sys.stderr)
    if any(report.wrong.values()):
        return 1
    shutil.rmtree(folder)
    _PAGE.write_text(_BETWEEN.sub(lambda _: f"{report.table()}\n", _PAGE.read_text()))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The SDK's runtime threads may abort at interpreter exit (a known race).
    os._exit(code)
