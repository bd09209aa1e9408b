"""A client of the task API that lives through chaos, and the platform's own books to compare its answers with."""

import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from outlast.deploy.local.processes import tail
from tests.support.eventually import eventually
from tests.support.stacks.chaos_stack import ChaosStack

Json = dict[str, Any]


@dataclass
class Books:
    """What the sandbox counted since these books were opened."""

    stack: ChaosStack
    opening: Json = field(init=False)

    def __post_init__(self) -> None:
        self.opening = self.stack.sandbox.counters

    @property
    def starts(self) -> int:
        return self.stack.sandbox.counters["startsAccepted"] - self.opening["startsAccepted"]

    @property
    def running(self) -> list[str]:
        return self.stack.sandbox.counters["runningNow"]

    def ended_as(self, status: str) -> int:
        now = self.stack.sandbox.counters["runsByStatus"].get(status, 0)
        return now - self.opening["runsByStatus"].get(status, 0)

    def requests(self, method: str, route: str) -> int:
        """Requests answered on a route, whatever a fault made of the answer."""
        return _requests(self.stack.sandbox.counters, method, route) - _requests(self.opening, method, route)

    def runs_per_operation(self) -> list[int]:
        """How many runs each new operation has on the platform."""
        operations = self.stack.sandbox.counters["operations"]
        return [len(runs) for operation, runs in operations.items() if operation not in self.opening["operations"]]

    def run_ids(self) -> list[str]:
        operations = self.stack.sandbox.counters["operations"]
        new = [runs for operation, runs in operations.items() if operation not in self.opening["operations"]]
        return [run_id for runs in new for run_id in runs]


def _requests(counters: Json, method: str, route: str) -> int:
    return sum(c["count"] for c in counters["requests"] if c["method"] == method and c["route"] == route)


class Chaos:
    """What a test sees: the stack to break, tasks through the front door, the platform's books."""

    def __init__(self, stack: ChaosStack) -> None:
        self.stack = stack
        self.sandbox = stack.sandbox
        self.books = Books(stack)
        self.http = httpx.AsyncClient(base_url=stack.api_url, trust_env=False, timeout=180)
        self._started: list[str] = []

    @staticmethod
    def body(
        *,
        seconds: float = 1,
        rows: int = 3,
        mode: str = "default",
        session: str | None = None,
        options: Json | None = None,
        **call_options: Any,
    ) -> Json:
        """A call of the sleeper, whose rows tell whether the answer is right."""
        run_input = {"seconds": seconds, "steps": 10, "rows": rows}
        arguments = {"actor": "outlast/sleeper", "input": run_input, "callOptions": call_options}
        call = {"tool": "call-actor", "mode": mode, "arguments": arguments, "options": options or {}}
        return {**call, "session_id": session} if session else call

    async def start(self, *, key: str | None = None, wait: int = 0, **call: Any) -> str:
        """The id of a task that the API has accepted. As clients should, it repeats what was answered with 503."""
        body, key = self.body(**call), key or uuid.uuid4().hex

        async def answered() -> httpx.Response:
            answer = await self.post(body, key=key, wait=wait)
            assert answer.status_code != httpx.codes.SERVICE_UNAVAILABLE, answer.text
            return answer

        return self.checked(await eventually(answered, interval_seconds=1)).json()["id"]

    async def post(self, body: Json, *, key: str | None = None, wait: int = 0) -> httpx.Response:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex, **({"Prefer": f"wait={wait}"} if wait else {})}
        answer = await self.http.post("/v1/tasks", json=body, headers=headers)
        if answer.is_success:
            task = answer.json().get("task", answer.json())
            self._started.append(task["id"])
        return answer

    async def task(self, task_id: str) -> Json:
        return self.checked(await self.http.get(f"/v1/tasks/{task_id}")).json()

    def checked(self, answer: httpx.Response) -> httpx.Response:
        """The answer. One that refuses fails with what it says, and a defect with the end of the API's log."""
        log = tail(self.stack.api.log, 80) if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR else ""
        assert answer.is_success, f"{answer.status_code} {answer.text}\n{log}"
        return answer

    async def start_call(self, tool: str, **arguments: Any) -> str:
        """The id of a call of any tool that the API has accepted."""
        return self.checked(await self.post({"tool": tool, "arguments": arguments})).json()["id"]

    async def result(self, task_id: str) -> Json | None:
        return self.checked(await self.http.get(f"/v1/tasks/{task_id}/result")).json().get("result")

    async def cancel(self, task_id: str) -> httpx.Response:
        return await self.http.post(f"/v1/tasks/{task_id}/cancel")

    async def ended(self, task_id: str, *, timeout_seconds: float = 240) -> Json:
        """The task when its workflow has ended; meanwhile the API may be away."""

        async def finished() -> Json | None:
            try:
                task = await self.task(task_id)
            except httpx.HTTPError as error:
                raise AssertionError(repr(error)) from error
            assert task.get("finished_at"), task
            return task

        return await eventually(finished, timeout_seconds, 0.1)

    async def until(self, predicate: Callable[[], bool], timeout_seconds: float = 180) -> None:
        await eventually(predicate, timeout_seconds, 0.05)

    async def until_message(self, task_id: str, text: str, timeout_seconds: float = 180) -> Json:
        """The task when its status message contains `text`."""

        async def says() -> Json | None:
            task = await self.task(task_id)
            messages = [task.get("status_message"), (task["run"] or {}).get("status_message")]
            assert any(text in message for message in messages if message), task
            return task

        return await eventually(says, timeout_seconds, 0.1)

    async def expect_right_answer(self, task_id: str, *, rows: int = 3) -> Json:
        """The task ended well: its answer is there, and the run's dataset holds every row once."""
        task = await self.ended(task_id)
        assert task["status"] == "completed", task
        assert task["run"]["status"] == "SUCCEEDED", task
        result = await self.result(task_id)
        assert result is not None
        assert not result["is_error"]
        assert result["structured"]["runId"] == task["run"]["run_id"]
        if task["mode"] == "apify":
            assert result["structured"]["storages"]["datasets"]["default"]["itemCount"] == rows
        elif task["executor"] == "sync":
            assert [row["index"] for row in result["structured"]["items"]] == list(range(rows))
        assert [row["index"] for row in self.dataset(task["run"]["dataset_id"])] == list(range(rows))
        return task

    async def expect_failure(self, task_id: str, *, category: str) -> Json:
        """The envelope of a task that failed."""
        task = await self.ended(task_id)
        assert task["status"] == "failed", task
        result = await self.result(task_id)
        assert result is not None
        assert result["error"]["category"] == category, result
        return result["error"]

    async def expect_cancelled(self, task_id: str) -> Json:
        task = await self.ended(task_id)
        assert task["status"] == "cancelled", task
        self.expect_nothing_running()
        return task

    def expect_one_run_per_task(self, tasks: int = 1) -> None:
        """The platform's own count: every task has one run, and none is left running."""
        assert self.books.runs_per_operation() == [1] * tasks
        assert self.books.starts == tasks
        self.expect_nothing_running()

    def expect_nothing_running(self) -> None:
        assert self.books.running == []

    def dataset(self, dataset_id: str) -> list[Json]:
        headers = {"Authorization": f"Bearer {self.sandbox.token}"}
        url = f"{self.sandbox.url}/v2/datasets/{dataset_id}/items"
        return httpx.get(url, headers=headers, trust_env=False).raise_for_status().json()

    async def events(self, task_id: str, *, after: str | None = None) -> AsyncIterator[tuple[str | None, str, Json]]:
        """Server-sent events as (id, name, data) until the stream ends or breaks."""
        headers = {"Last-Event-ID": after} if after else {}
        async with self.http.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            fields: dict[str, str] = {}
            async for line in response.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    yield fields.get("id"), fields["event"], json.loads(fields["data"])
                    fields = {}

    def order_each_once(self, faults: Iterable[Json], *, path: str, method: str) -> None:
        """Have the next matching requests struck, each by another one of `faults`."""
        for fault in faults:
            self.sandbox.order_fault(**fault, path=path, method=method, times=1)

    def faults_left(self) -> int:
        """How many faults ordered for a number of times have not struck as often."""
        return sum(fault["times"] - fault["hits"] for fault in self.sandbox.faults if fault["times"] is not None)

    async def clean_up(self) -> None:
        """Leave nothing behind for the next test, also when this one failed."""
        self.sandbox.restore()
        await self.stack.bring_up()
        for task_id in self._started:
            await self.cancel(task_id)
        for task_id in self._started:
            await self.ended(task_id, timeout_seconds=120)
        await self.http.aclose()
