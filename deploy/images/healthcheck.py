"""Health check of a container's process: exit code 0, or 1 and one line with the reason.

Without an argument it checks the process in OUTLAST_READY_FILE: `/healthz` of an API, the metrics of a worker. An
address as argument has to answer 200. It needs only the standard library, so that it starts at once.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

_SECONDS = 4


def main(arguments: list[str]) -> int:
    """Check the process and print the reason of a failure."""
    try:
        address = arguments[0] if arguments else _announced()
        if address is not None:
            _ask(address)
    except (OSError, KeyError, ValueError) as error:
        print(f"not healthy: {error}", file=sys.stderr)
        return 1
    return 0


def _announced() -> str | None:
    """Return the address of the process, None for a worker without metrics, which is healthy while it runs."""
    ready = json.loads(Path(os.environ["OUTLAST_READY_FILE"]).read_text(encoding="utf-8"))
    os.kill(ready["pid"], 0)
    return f"{ready['url']}/healthz" if "url" in ready else ready.get("metrics_url")


def _ask(address: str) -> None:
    parts = urlsplit(address)
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "", parts.netloc.rpartition(":")[0])  # noqa: S104 (compared, not bound)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(f"http://{host}:{parts.port}{parts.path}", timeout=_SECONDS).close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
