"""Replays the recorded calls of `worlds.py` through Outlast while its processes are killed, and counts what became of
them.
"""

import asyncio
import itertools
import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from outlast.workflows.tools.core.server_tools import server_tool_name
from tests.support.eventually import eventually
from tests.support.locked_environments import LockedEnvironment
from tests.support.stacks.chaos_stack import ChaosStack, Part
from tests.support.stacks.sandbox import Sandbox
from tests.support.traces import worlds

TRACES = LockedEnvironment(Path(__file__).with_name("traces.lock"))
"""The packages with the recorded calls. Made from `uv pip compile` of mpmath, pydantic, pyyaml, deepdiff,
docstring-parser, email-validator and typing-extensions; bfcl-eval and agentdojo are without the rest of what they name,
which is for models."""
_WORLDS = Path(worlds.__file__)
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""AgentDojo lists participants in the order of a set, which has to be the same in all runs."""
_AWAY = frozenset({502, 503, 504})
_OUTCOMES = ("done", "retry")


@dataclass(frozen=True)
class Effort:
    """What is replayed, and what is killed meanwhile."""

    share: int
    """Every so many-th world."""
    at_once: int
    """Worlds that are replayed at a time; the calls of a world follow one another."""
    calls_per_kill: int
    """After so many calls the worker, the API, or the Temporal server is killed, in turns."""
    calls_per_death: int
    """A process of a server kills itself in this call: before its effect, or between effect and answer."""


ALL = Effort(share=1, at_once=16, calls_per_kill=100, calls_per_death=40)
SAMPLE = Effort(share=134, at_once=8, calls_per_kill=12, calls_per_death=6)


@dataclass
class Report:
    """What a replay has found."""

    worlds_that_differ: list[str]
    """Their state at the end is not that of a straight run."""
    lost: int
    """Recorded calls that were never executed."""
    twice: int
    """Calls of tools with effects that were executed more than once."""
    out_of_order: list[str]
    """Worlds whose calls were executed in another order, or with other arguments."""
    wrong_answers: list[str]
    """Calls whose answer was not that of the straight run."""
    worlds: int
    calls: int
    kills: Counter[str]
    rungs: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def wrong(self) -> dict[str, int]:
        """What must not be: all zero if nothing was lost, repeated, or reordered."""
        return {
            "entries whose end state differs from a straight run": len(self.worlds_that_differ),
            "calls lost": self.lost,
            "calls executed twice": self.twice,
            "entries with calls out of order": len(self.out_of_order),
            "calls with another answer": len(self.wrong_answers),
        }

    def table(self) -> str:
        """The report as Markdown."""
        head = {
            "entries": self.worlds,
            "calls": self.calls,
            **{f"`kill -9`: {name}": n for name, n in sorted(self.kills.items())},
        }
        rows = [f"| {name} | {number:,} |" for name, number in {**head, **self.wrong, **self.rungs}.items()]
        return "\n".join(("| | |", "|---|---|", *rows))


class Database:
    """The database of the worlds, as a test reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path, timeout=60)) as database:
            return database.execute(query, values).fetchall()

    def number(self, query: str) -> int:
        return self.rows(query)[0][0]

    def executed(self, world: str, step: int) -> str | None:
        """The answer of a call that was executed."""
        found = self.rows("SELECT answer FROM executed WHERE world = ? AND step = ?", world, step)
        return found[0][0] if found else None


class Replay:
    """One replay, in `folder`, with the packages installed."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self._effort = effort
        self._path = folder / "worlds.db"
        self._python = str(TRACES.program("python"))
        self._run("prepare", str(effort.share))
        self._database = Database(self._path)
        servers = folder / "servers.json"
        servers.write_text(json.dumps({"mcpServers": self._servers()}))
        nowhere = Sandbox("http://127.0.0.1:9", "none", folder / "no.log")
        self._stack = ChaosStack(folder, nowhere, OUTLAST_MCP_SERVERS_FILE=str(servers))
        self._http = httpx.AsyncClient(base_url=self._stack.api_url, trust_env=False, timeout=120)
        self._calls = 0
        self._kills: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._wrong_answers: list[str] = []

    def _run(self, *order: str) -> str:
        command = (self._python, "-P", str(_WORLDS), order[0], str(self._path), *order[1:])
        return subprocess.run(command, check=True, capture_output=True, text=True, env=_ENVIRONMENT).stdout

    def _servers(self) -> Mapping[str, Any]:
        """One server per rung. Their state is in the database, so a new process has lost nothing; the last one does
        not say so to Outlast, which then tells of each lost session.
        """
        writing = [name for name, tool in self._tools().items() if not tool["annotations"]["readOnlyHint"]]
        check = {"tool": "find_call", "arguments": {"world": "{world}", "step": "{step}"}, "done": "structured.done"}
        options = {
            "keyed": {"stateless": True, "retry": {name: {"argument": "request_id"} for name in writing}},
            "checked": {"stateless": True, "verify": dict.fromkeys(writing, check)},
            "bare": {"session": "caller"},
        }
        command = ("-P", str(_WORLDS), "serve", str(self._path), str(self._effort.calls_per_death))
        return {
            name: {"command": self._python, "args": list(command), "env": _ENVIRONMENT, "outlast": options[name]}
            for name in worlds.SERVERS
        }

    def _tools(self) -> dict[str, Any]:
        return {name: json.loads(tool) for name, tool in self._database.rows("SELECT name, definition FROM tools")}

    async def run(self) -> Report:
        """Replay all, and compare."""
        with self._stack:
            await self._stack.bring_up()
            entries = self._database.rows("SELECT id, server FROM worlds ORDER BY id")
            free = asyncio.Semaphore(self._effort.at_once)
            killer = asyncio.create_task(self._kill_in_turns())
            async with self._http, asyncio.TaskGroup() as group:
                for world, server in entries:
                    group.create_task(self._world(world, server, free))
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)
        return self._report()

    async def _kill_in_turns(self) -> None:
        parts: tuple[Part, ...] = (self._stack.worker, self._stack.api, self._stack.temporal)
        for part in itertools.cycle(parts):
            await eventually(self._is_due, timeout_seconds=3600)
            self._kills[part.name] += 1
            part.kill()
            await self._stack.bring_up()

    def _is_due(self) -> bool:
        return self._calls >= (self._kills.total() + 1) * self._effort.calls_per_kill

    async def _world(self, world: str, server: str, free: asyncio.Semaphore) -> None:
        async with free:
            query = "SELECT step, tool, arguments, answer FROM gold WHERE world = ? ORDER BY step"
            for step, tool, arguments, expected in self._database.rows(query, world):
                given = {**json.loads(arguments), "world": world, "step": step}
                try:
                    answer = await self._call(server_tool_name(server, tool), given)
                except (AssertionError, RuntimeError) as error:
                    self._wrong_answers.append(f"{world} {step} {tool}: {error!r}")
                    return  # the calls that follow are lost
                self._calls += 1
                if answer != expected:
                    self._wrong_answers.append(f"{world} {step} {tool}: {answer[:200]}")

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        """The answer of a call, of which its caller does what the gateway tells it."""
        key = f"{arguments['world']}-{arguments['step']}"
        task = await self._asked("POST", "/v1/tasks", {"tool": tool, "arguments": arguments}, key=key)
        while True:
            task_id = task.get("task", task)["id"]
            result = await self._result(task_id)
            category = (result.get("error") or {}).get("category")
            if category is None:
                return self._text(result)
            if category == "conflict":
                self._told["session lost, told once: the call was made again"] += 1
                key = f"{key}-again"
                task = await self._asked("POST", "/v1/tasks", {"tool": tool, "arguments": arguments}, key=key)
                continue
            if category != "outcome_unknown":
                raise RuntimeError(f"{arguments}: {result}")
            known = self._database.executed(arguments["world"], arguments["step"])
            outcome = _OUTCOMES[known is None]
            self._told[f"outcome unknown, resolved as {'done' if known else 'not done, and made again'}"] += 1
            resolved = await self._asked("POST", f"/v1/tasks/{task_id}/resolve", {"outcome": outcome})
            if known is not None:
                return known
            task = {"id": resolved["resolution"]["task_id"]}

    async def _result(self, task_id: str) -> dict[str, Any]:
        async def ended() -> dict[str, Any] | None:
            return (await self._asked("GET", f"/v1/tasks/{task_id}/result?wait=30")).get("result")

        return await eventually(ended)

    async def _asked(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> dict[str, Any]:
        """The answer of the API. While it is away, the same request is repeated."""

        async def answered() -> httpx.Response:
            headers = {"Idempotency-Key": key, "Prefer": "wait=30"} if key else {}
            try:
                answer = await self._http.request(method, path, json=body, headers=headers)
            except httpx.HTTPError as error:
                raise AssertionError(repr(error)) from error
            assert answer.status_code not in _AWAY, answer.text
            return answer

        answer = await eventually(answered, interval_seconds=0.2)
        if not answer.is_success:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}\n{body}")
        return answer.json()

    @staticmethod
    def _text(result: dict[str, Any]) -> str:
        if isinstance(result.get("structured"), dict) and result["structured"].get("done") is True:
            return result["structured"]["answer"]
        return "".join(block["text"] for block in result["raw_content"])

    def _report(self) -> Report:
        database, tools = self._database, self._tools()
        reading = {name for name, tool in tools.items() if tool["annotations"]["readOnlyHint"]}
        arrived, executed = (
            Counter(
                (world, step, tool) for world, step, tool in database.rows(f"SELECT world, step, tool FROM {table}")
            )
            for table in ("arrivals", "executed")
        )
        gold = database.rows("SELECT world, step, tool, arguments FROM gold ORDER BY world, step")
        made = {(world, step): (tool, json.loads(arguments)) for world, step, tool, arguments in gold}
        seen: dict[str, list[int]] = {}
        changed: set[str] = set()
        for world, step, tool, arguments in database.rows(
            "SELECT world, step, tool, arguments FROM executed ORDER BY id"
        ):
            if (tool, json.loads(arguments)) != made[world, step]:
                changed.add(world)
            if not (tool in reading and step in seen.get(world, ())):
                seen.setdefault(world, []).append(step)
        ends = Counter(end for (end,) in database.rows("SELECT end FROM arrivals"))
        self._kills["MCP server process"] = database.number("SELECT count(*) FROM deaths")
        return Report(
            worlds_that_differ=json.loads(self._run("compare")),
            lost=sum((world, step, tool) not in executed for world, step, tool, _ in gold),
            twice=sum(times > 1 for (_, _, tool), times in executed.items() if tool not in reading),
            out_of_order=sorted(changed | {world for world, steps in seen.items() if steps != sorted(steps)}),
            wrong_answers=self._wrong_answers,
            worlds=database.number("SELECT count(*) FROM worlds"),
            calls=len(gold),
            kills=self._kills,
            rungs={
                "read-only calls sent again": sum(n > 1 for (_, _, tool), n in arrived.items() if tool in reading),
                "sent again with the same idempotency argument, recognized": ends["recognized"],
                "`verify` found the effect: answer adopted": ends["found"],
                "`verify` found no effect: sent again": ends["not found"],
                **self._told,
            },
        )
