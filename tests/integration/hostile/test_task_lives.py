"""Tasks of two callers live all kinds of lives at once; each sees, and changes, nothing but its own."""

import itertools
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.support.hostile.party import Party
from tests.support.hostile.texts import TIMES, examples

LIVES = 6
STEPS = 25
WHO = st.integers(0, 1)
_lives = itertools.count()
FINAL = {"completed", "failed", "cancelled"}
CALLS: dict[str, Any] = {
    "say": {"text": "{canary}"},
    "fail": {},
    "ask-name": {},
    "wait-for-ever": {},
    "say-lines": {"line": "{canary}", "times": 2_000},
    "call-actor": {"actor": "outlast/absent", "input": {"note": "{canary}"}},
    "get-dataset-items": {"datasetId": "{canary}"},
}
ANSWERS = {
    "fits": {"name": {"content": {"name": "{canary}"}}},
    "does not fit": {"name": {"content": {"name": 7}}},
    "declines": {"name": {"action": "decline", "message": "{canary}"}},
    "to nothing": {"other": {"content": {}}},
    "too long": {"name": {"content": {"name": "{canary}" * 30_000}}},
}

SELECTIONS = [{}, {"offset": 5, "limit": 3}, {"query": "[0]"}, {"filter": "a == `1`"}, {"fields": "a"}, {"limit": -1}]


@dataclass
class Made:
    """A task, and what is known of it."""

    id: str
    owner: int
    seen: str = "working"
    locator: str | None = None
    deleted: bool = False


class TaskLives(RuleBasedStateMachine):
    """What two callers do with tasks: their own, and each other's."""

    everybody: list[Party]
    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[tuple[int, str], tuple[str, Made]] = {}
        self.life = next(_lives)

    @rule(target=tasks, who=WHO, tool=st.sampled_from(sorted(CALLS)), session=st.booleans())
    def start(self, who: int, tool: str, *, session: bool) -> Made:
        return self._started(who, tool, session=session)

    @rule(target=tasks, who=WHO, tool=st.sampled_from(["say", "ask-name"]), key=st.sampled_from(["k", "same", "ü" * 9]))
    def start_once(self, who: int, tool: str, key: str) -> Made:
        """The same key gives each caller a task of its own, and with another call it is refused."""
        headers = {"Idempotency-Key": f"{self.life}-{key}".encode("latin-1")}
        answer = self._ask(who, "POST", "/v1/tasks", json=self._body(who, tool), headers=headers)
        made_by, made = self.made.get((who, key), (tool, None))
        assert answer.status_code == (201 if made_by == tool else 409), answer.text
        if made_by != tool:
            assert made is not None
            return made
        task_id = answer.json()["id"]
        assert made is None or made.id == task_id
        assert task_id not in self._of_others(who)
        made = made or Made(task_id, who)
        self.made[who, key] = (tool, made)
        return made

    @rule(who=WHO, task=tasks)
    def describe(self, who: int, task: Made) -> None:
        answer = self._of_task(who, task, "GET", "")
        if who == task.owner:
            self._note(task, answer.json()["status"])

    @rule(who=WHO, task=tasks, wait=st.sampled_from([0, 0.2]))
    def wait(self, who: int, task: Made, wait: float) -> None:
        answer = self._of_task(who, task, "GET", "/result", params={"wait": wait})
        if who != task.owner:
            return
        told = answer.json()
        assert (answer.status_code == 200) == (told.get("result") is not None)
        self._note(task, told["task"]["status"])
        task.locator = (told.get("result") or {}).get("locator")

    @rule(who=WHO, task=tasks)
    def cancel(self, who: int, task: Made) -> None:
        answer = self._of_task(who, task, "POST", "/cancel")
        if who == task.owner:
            assert answer.status_code == 409 or (answer.status_code == 202 and task.seen not in FINAL), answer.text

    @rule(who=WHO, task=tasks, answers=st.sampled_from(sorted(ANSWERS)))
    def answer(self, who: int, task: Made, answers: str) -> None:
        body = {"answers": self._own(who, ANSWERS[answers])}
        answer = self._of_task(who, task, "POST", "/input", json=body)
        if who == task.owner:
            assert answer.status_code in (200, 409, 422), answer.text
            assert task.seen not in FINAL or answer.status_code == 409

    @rule(who=WHO, task=tasks, after=st.sampled_from(["", "1", "7", "999999", "x", "-1", "9" * 50]))
    def follow(self, who: int, task: Made, after: str) -> None:
        headers = {"Last-Event-ID": after} if after else {}
        status, _ = self.everybody[who].peek("GET", f"/v1/tasks/{task.id}/events", headers=headers)
        assert status in (200 if who == task.owner else 404, 400)

    @rule(who=WHO, status=st.sampled_from([None, "working", "completed", "input_required"]), session=st.booleans())
    def list_tasks(self, who: int, status: str | None, *, session: bool) -> None:
        params = {"page_size": 200} | ({"status": status} if status else {}) | ({"session_id": "s"} if session else {})
        answer = self._ask(who, "GET", "/v1/tasks", params=params)
        assert answer.status_code == 200
        listed = {task["id"] for task in answer.json()["tasks"]}
        assert not listed & self._of_others(who)

    @rule(who=WHO)
    def list_questions(self, who: int) -> None:
        assert self._ask(who, "GET", "/v1/handoffs").status_code == 200
        assert self.everybody[who].peek("GET", "/v1/handoffs/events")[0] == 200

    @rule(who=WHO, task=tasks, params=st.sampled_from(SELECTIONS), info=st.booleans())
    def read_output(self, who: int, task: Made, params: dict[str, Any], *, info: bool) -> None:
        if task.locator is None:
            return
        answer = self._ask(who, "GET", f"/v1/outputs/{task.locator}{'/info' if info else ''}", params=params)
        gone = [410] if task.deleted else []
        assert answer.status_code in ([200, 422, *gone] if who == task.owner else [403, 422, *gone]), answer.text

    @rule(who=WHO, task=tasks)
    def delete_output(self, who: int, task: Made) -> None:
        if task.locator is None:
            return
        answer = self._ask(who, "DELETE", f"/v1/outputs/{task.locator}")
        assert answer.status_code in ((204, 410) if who == task.owner else (403, 410)), answer.text
        task.deleted = task.deleted or answer.status_code == 204

    def _started(self, who: int, tool: str, *, session: bool) -> Made:
        body = self._body(who, tool) | ({"session_id": "s"} if session else {})
        answer = self._ask(who, "POST", "/v1/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return Made(answer.json()["id"], who)

    def _of_others(self, who: int) -> set[str]:
        return {made.id for (other, _), (_, made) in self.made.items() if other != who}

    def _body(self, who: int, tool: str) -> dict[str, Any]:
        return {"tool": tool, "arguments": self._own(who, CALLS[tool])}

    def _own(self, who: int, value: Any) -> Any:
        """`value` with the caller's canary where it is named."""
        if isinstance(value, dict):
            return {key: self._own(who, inner) for key, inner in value.items()}
        return value.replace("{canary}", self.everybody[who].canary) if isinstance(value, str) else value

    def _ask(self, who: int, method: str, path: str, **request: Any) -> Any:
        return self.everybody[who].ask(method, path, **request)

    def _of_task(self, who: int, task: Made, method: str, path: str, **request: Any) -> Any:
        """Ask about a task. To anybody but its owner there is none."""
        answer = self._ask(who, method, f"/v1/tasks/{task.id}{path}", **request)
        assert (answer.status_code == 404) == (who != task.owner), answer.text
        return answer

    def _note(self, task: Made, status: str) -> None:
        """What has ended stays as it ended."""
        assert task.seen not in FINAL or status == task.seen
        task.seen = status


@TIMES
def test_tasks_of_two_callers(everybody: list[Party], times: int) -> None:
    class OfTheseTwo(TaskLives):
        pass

    OfTheseTwo.everybody = everybody
    run_state_machine_as_test(OfTheseTwo, settings=examples(LIVES, times, steps=STEPS))
