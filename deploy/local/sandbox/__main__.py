"""`python -m outlast.deploy.local.sandbox`: serve the sandbox platform until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from outlast.deploy.local.sandbox.execution import IN_PROCESS_ACTORS
from outlast.deploy.local.sandbox.formats import iso
from outlast.deploy.local.sandbox.http.app import build_app
from outlast.deploy.local.sandbox.platform import DataDirectoryInUseError, Platform
from outlast.deploy.local.sandbox.settings import Settings, is_loopback
from outlast.paths import default_data_dir, keep_files_private
from outlast.uncaught_errors import log_uncaught_errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the flags, serve until a signal, and return the exit code."""
    keep_files_private()
    parser = _parser()
    options = parser.parse_args(arguments)
    if not is_loopback(options.host):
        parser.error(f"--host {options.host}: the sandbox runs code for its callers and listens on loopback only")
    configure_logging(options.log_format)
    logger = logging.getLogger("sandbox")
    try:
        listener = _listener(options.host, options.port)
        # Every flag has the name of a setting.
        settings = Settings(**vars(options) | {"port": listener.getsockname()[1]})
        platform = Platform(settings)
    except (OSError, DataDirectoryInUseError) as error:
        logger.error("cannot start: %s", error)  # noqa: TRY400 (the message suffices)
        return 1
    except sqlite3.DatabaseError as error:
        logger.error("cannot start: the database in %s is damaged: %s", options.data_dir, error)  # noqa: TRY400 (as above)
        return 1
    app = build_app(platform)
    names = ", ".join(actor.full_name for actor in platform.catalogue.all()) or "none"
    logger.info(
        "serving the Apify API at %s/v2, pages at %s/site/, Actors: %s", settings.base_url, settings.base_url, names
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            proxy_headers=False,
            access_log=False,
            log_config=None,
            ws="websockets-sansio",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
    )
    server.run(sockets=[listener])
    return 0 if server.started else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m outlast.deploy.local.sandbox", description=__doc__)
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="loopback address to listen on (default: %(default)s)")
    add("--port", type=int, default=8700, help="port to listen on; 0 takes a free one (default: %(default)s)")
    state = str(default_data_dir() / "sandbox")
    add("--data-dir", type=_resolved, default=state, help="where the state is kept (default: %(default)s)")
    actors = "an Actor folder, or a folder of them"
    add("--actors", dest="actor_dirs", type=_resolved, action="append", default=[], metavar="DIR", help=actors)
    shipped = "leave out the Actors that come with Outlast"
    add("--no-shipped-actors", dest="ships_actors", action="store_false", help=shipped)
    add(
        "--token",
        default=os.environ.get("OUTLAST_SANDBOX_TOKEN"),
        help="API token of the first user (default: OUTLAST_SANDBOX_TOKEN, else one kept in DATA_DIR/token)",
    )
    add("--username", default="sandbox", help="name of the first user (default: %(default)s)")
    add(
        "--site-dir",
        type=Path,
        metavar="DIR",
        help="Markdown files to serve at /site/ (default: the documentation of Outlast)",
    )
    add(
        "--in-process",
        action="append",
        default=[],
        choices=sorted(IN_PROCESS_ACTORS),
        help="run this Actor inside the server, without its own process",
    )
    add("--memory-limit-mbytes", type=int, default=8192, help="memory of all runs of a user (default: %(default)s)")
    add("--max-concurrent-runs", type=int, default=25, help="open runs of a user (default: %(default)s)")
    add("--graceful-abort-seconds", type=float, default=30.0, help="time after a graceful abort (default: %(default)s)")
    add("--kill-after-seconds", type=float, default=2.0, help="time from SIGTERM to SIGKILL (default: %(default)s)")
    add(
        "--webhook-retry-seconds", type=float, default=1.0, help="first pause; doubles each time (default: %(default)s)"
    )
    add("--log-format", choices=("plain", "json"), default="plain", help="(default: %(default)s)")
    return parser


def _resolved(path: str) -> Path:
    return Path(path).resolve()


def _listener(host: str, port: int) -> socket.socket:
    """Bind a socket. Binding comes first: if the port is taken, the runs of the data directory must not be touched."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sets TCP_NODELAY, without which small responses are delayed by 40 ms.
    listener = socket.socket(family, proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(4096)
    return listener


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # Text from a caller must not look like further messages; a traceback's lines are indented.
        first, *more = super().format(record).split("\n")
        return "\n".join([_printable(first), *(f"    {_printable(line)}" for line in more)])


def _printable(line: str) -> str:
    """Escape everything in `line` that is not printable."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)


def configure_logging(log_format: str) -> None:
    """Send loggers, warnings and uncaught exceptions to standard error; with `json` each is one object on one line."""
    handler = logging.StreamHandler(sys.stderr)
    plain = _TextFormatter("%(asctime)s %(levelname)-7s sandbox: %(message)s")
    handler.setFormatter(_JsonFormatter() if log_format == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # httpx and uvicorn would log full URLs, which may carry a token.
    for name in ("httpx", "httpcore", "uvicorn", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
    log_uncaught_errors(logging.getLogger("sandbox"))


if __name__ == "__main__":
    sys.exit(main())
