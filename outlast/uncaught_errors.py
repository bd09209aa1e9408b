"""Warnings and uncaught exceptions of a process, written to its log as other lines are."""

import logging
import sys
import threading
from types import TracebackType


def log_uncaught_errors(log: logging.Logger) -> None:
    """Send warnings, and exceptions that nothing catches (in any thread, and in finalizers), to the logger `log`."""

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        log.critical("The process ends with an uncaught exception", exc_info=(kind, error, trace))

    def on_thread_exception(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is None:  # the interpreter is shutting down
            return
        name = failure.thread.name if failure.thread else "unknown"
        trace = (failure.exc_type, failure.exc_value, failure.exc_traceback)
        log.error("Thread %s ended with an uncaught exception", name, exc_info=trace)

    def on_unraisable(failure: "sys.UnraisableHookArgs") -> None:
        if failure.exc_value is None:
            return
        trace = (failure.exc_type, failure.exc_value, failure.exc_traceback)
        log.error("%s in %r", failure.err_msg or "Exception ignored", failure.object, exc_info=trace)

    logging.captureWarnings(capture=True)
    sys.excepthook = on_exception
    sys.unraisablehook = on_unraisable
    threading.excepthook = on_thread_exception
