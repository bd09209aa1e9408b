"""The sandbox's log lines on standard error: text for people or JSON for machines, also those of libraries."""

from __future__ import annotations

import json
import logging
import sys
import threading
from types import TracebackType

from outlast.deploy.local.sandbox.times_and_ids import iso

log = logging.getLogger("sandbox")


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
        # A message that holds what a caller sent must not look like several; a traceback's lines are indented.
        first, *more = super().format(record).split("\n")
        return "\n".join([_printable(first), *(f"    {_printable(line)}" for line in more)])


def _printable(line: str) -> str:
    """`line` with everything that is not printable as an escape."""
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
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_uncaught_in_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("The process ends with an uncaught exception", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is None:  # the interpreter is shutting down
        return
    name = failure.thread.name if failure.thread else "unknown"
    trace = (failure.exc_type, failure.exc_value, failure.exc_traceback)
    log.error("Thread %s ended with an uncaught exception", name, exc_info=trace)


def _log_unraisable(failure: sys.UnraisableHookArgs) -> None:
    if failure.exc_value is None:
        return
    trace = (failure.exc_type, failure.exc_value, failure.exc_traceback)
    log.error("%s in %r", failure.err_msg or "Exception ignored", failure.object, exc_info=trace)
