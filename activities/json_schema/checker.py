"""`SchemaChecker`: checks values against schemas of the outside world, without holding the event loop up."""

import asyncio
import json
import signal
import sys
from typing import cast
from weakref import WeakValueDictionary

from pydantic import JsonValue

from outlast.activities.contracts import Violation
from outlast.activities.json_schema.engine import Found, as_text
from outlast.activities.json_schema.violations import as_violations, quick_violations

_PROCESSES = 2
_LEAST_PATIENCE_SECONDS = 60.0
_PATIENCE_FACTOR = 6
_MODULE = "outlast.activities.json_schema.checker_process"


class ChecksBusy(Exception):
    """A check got too little of the machine's processors to end. Says nothing of the value: the same may fit later."""


def patience(seconds: float) -> float:
    """The time limit of a check by the clock, in seconds, if it may have `seconds` of processor time. The processes run
    after everything else: on a busy machine they wait longer than they work.
    """
    return max(_LEAST_PATIENCE_SECONDS, _PATIENCE_FACTOR * seconds)


class SchemaChecker:
    """Small questions are answered at once, others by a process that is killed when its time is over."""

    def __init__(self, *, seconds: float) -> None:
        """Give each check `seconds` of processor time. At most two processes run at a time, and one for each party."""
        self._seconds = seconds
        self._patience = patience(seconds)
        self._processes = asyncio.Semaphore(_PROCESSES)
        self._parties: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def violations(self, schema: dict[str, JsonValue], value: JsonValue, *, party: str) -> tuple[Violation, ...]:
        """The violations of `schema` (JSON Schema 2020-12, with Apify's `nullable`) in `value`; 50 at most. An invalid
        schema accepts every value: its owner checks the value again. A check that takes too long, and a reference that
        cannot be followed, is a violation of the value as a whole. Raises `ChecksBusy`.
        """
        quick = quick_violations(schema, value)
        if quick is not None:
            return quick
        lock = self._parties.setdefault(party, asyncio.Lock())
        async with lock, self._processes:
            return await self._asked(schema, value)

    async def _asked(self, schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
        question = await asyncio.to_thread(_question, schema, value)
        if question is None:
            return _not_checked("it is nested too deeply")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # no module of the current folder
            "-m",
            _MODULE,
            str(self._seconds),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # Nothing of this process's environment: what reads a stranger's schema holds no secrets.
            env={"PYTHONPATH": ":".join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            async with asyncio.timeout(self._patience):
                answer, _ = await process.communicate(question)
        except TimeoutError as error:
            raise ChecksBusy from error
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if process.returncode == -signal.SIGPROF:
            return _not_checked(f"that takes longer than {self._seconds:g} seconds")
        if process.returncode != 0:
            return _not_checked("that takes too much memory")
        found = cast(list[tuple[list[str | int], str]], json.loads(answer))
        return as_violations([Found(tuple(place), message) for place, message in found])


def _question(schema: dict[str, JsonValue], value: JsonValue) -> bytes | None:
    try:
        encoded = as_text(schema).encode()
        return b"%d\n%b%b" % (len(encoded), encoded, json.dumps(value).encode())
    except RecursionError:
        return None


def _not_checked(reason: str) -> tuple[Violation, ...]:
    message = f"The value cannot be checked against the schema: {reason}. Send a smaller one."
    return (Violation(path="", message=message),)
