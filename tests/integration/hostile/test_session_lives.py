"""Conversations of two callers, under the same names: each sees, and changes, nothing but its own."""

import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.support.hostile.party import Party
from tests.support.hostile.texts import TIMES, examples

LIVES = 6
STEPS = 25
WHO = st.integers(0, 1)
NAMES = st.sampled_from(["talk", "same-name", "s3"])
MODEL = {"providerId": "generic", "modelId": "m", "tools": ["dev"]}
PATHS = ["", "/messages", "/export", "/export?outputs=true", "/messages?page_size=1", "/messages?page_token=x"]
GONE = 410
_lives = itertools.count()
FOLLOWED = ("/events", "/turns/{turn}/events")


class SessionLives(RuleBasedStateMachine):
    """What two callers do with sessions: their own, and each other's."""

    everybody: list[Party]
    turns = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        self.life = f"life{next(_lives)}"
        self.documents: dict[int, Any] = {}
        self.begun: set[tuple[int, str]] = set()

    @rule(who=WHO, name=NAMES, steps=st.sampled_from([2, 3]), update=st.booleans())
    def begin(self, who: int, name: str, steps: int, *, update: bool) -> None:
        body = {**MODEL, "sessionId": self._id(name), "title": self._canary(who), "maxSteps": steps, "update": update}
        answer = self._ask(who, "POST", "/v1/sessions", json=body)
        assert answer.status_code in (201, 409, GONE), answer.text
        self.begun |= {(who, name)} if answer.status_code == 201 else set()

    @rule(target=turns, who=WHO, name=NAMES, message_id=st.sampled_from([None, "m1", "m2"]), retry=st.booleans())
    def say(self, who: int, name: str, message_id: str | None, *, retry: bool) -> Any:
        body: dict[str, Any] = {"message": self._canary(who), "stream": False}
        body |= {"messageId": message_id} if message_id else {}
        answer = self._of_session(who, name, "POST", "/messages", json=body, params={"wait": 1})
        told = answer.json()
        if retry and answer.status_code == 200:
            again = {"retryOfAssistantMessageId": told["assistant_message_id"], "stream": False}
            answer = self._of_session(who, name, "POST", "/messages", json=again)
        assert answer.status_code in (200, 202, 404, 409, GONE), answer.text
        return (name, told.get("id", "none"))

    @rule(who=WHO, name=NAMES)
    def say_and_listen(self, who: int, name: str) -> None:
        path = f"/v1/sessions/{self._id(name)}/messages"
        self.everybody[who].peek("POST", path, json={"message": self._canary(who)})

    @rule(who=WHO, name=NAMES, path=st.sampled_from(PATHS))
    def read(self, who: int, name: str, path: str) -> None:
        answer = self._of_session(who, name, "GET", path)
        assert answer.status_code in (200, 400, 404, GONE), answer.text
        if path == "/export" and answer.status_code == 200:
            self.documents[who] = answer.json()

    @rule(who=WHO, turn=turns, follow=st.sampled_from(FOLLOWED), after=st.sampled_from(["", "1", "1.1", "9" * 60]))
    def follow(self, who: int, turn: tuple[str, str], follow: str, after: str) -> None:
        headers = {"Last-Event-ID": after} if after else {}
        path = f"/v1/sessions/{self._id(turn[0])}{follow.format(turn=turn[1])}"
        status, _ = self.everybody[who].peek("GET", path, headers=headers)
        assert status in (200, 204, 400, 404, GONE)

    @rule(who=WHO, turn=turns, method=st.sampled_from(["GET", "POST"]))
    def of_turn(self, who: int, turn: tuple[str, str], method: str) -> None:
        path = f"/turns/{turn[1]}{'/cancel' if method == 'POST' else ''}"
        answer = self._of_session(who, turn[0], method, path)
        assert answer.status_code in (200, 202, 404, 409, GONE), answer.text

    @rule(who=WHO, name=NAMES)
    def rename(self, who: int, name: str) -> None:
        answer = self._of_session(who, name, "PATCH", "", json={"title": f"{self._canary(who)} again"})
        assert answer.status_code in (200, 404, GONE), answer.text

    @rule(who=WHO, name=NAMES)
    def delete(self, who: int, name: str) -> None:
        answer = self._of_session(who, name, "DELETE", "")
        assert answer.status_code in (204, 404, 409, GONE), answer.text

    @rule(who=WHO, name=NAMES, settings=st.booleans())
    def import_again(self, who: int, name: str, *, settings: bool) -> None:
        document = self.documents.get(who)
        if document is None:
            return
        changed = {
            **document,
            "settings": {**(document["settings"] if settings else MODEL), "sessionId": self._id(name)},
        }
        answer = self._ask(who, "POST", "/v1/sessions/import", json=changed)
        assert answer.status_code in (201, 409, GONE), answer.text
        self.begun |= {(who, name)} if answer.status_code == 201 else set()

    @rule(who=WHO, size=st.sampled_from([1, 50]))
    def list_sessions(self, who: int, size: int) -> None:
        answer = self._ask(who, "GET", "/v1/sessions", params={"page_size": size})
        assert answer.status_code == 200
        known = {self._id(name) for other, name in self.begun if other == who}
        shown = {session["id"] for session in answer.json()["sessions"] if session["id"].startswith(self.life)}
        assert shown <= known

    @rule(who=WHO)
    def tasks_of_sessions(self, who: int) -> None:
        assert self._ask(who, "GET", "/v1/tasks", params={"session_id": self._id("talk")}).status_code == 200

    def _id(self, name: str) -> str:
        return f"{self.life}-{name}"

    def _canary(self, who: int) -> str:
        return self.everybody[who].canary

    def _ask(self, who: int, method: str, path: str, **request: Any) -> Any:
        return self.everybody[who].ask(method, path, **request)

    def _of_session(self, who: int, name: str, method: str, path: str, **request: Any) -> Any:
        """Ask about a session. To whoever has not begun one of that name there is none."""
        answer = self._ask(who, method, f"/v1/sessions/{self._id(name)}{path}", **request)
        if (who, name) not in self.begun:
            assert answer.status_code == 404, answer.text
        return answer


@TIMES
def test_sessions_of_two_callers(everybody: list[Party], times: int) -> None:
    class OfTheseTwo(SessionLives):
        pass

    OfTheseTwo.everybody = everybody
    run_state_machine_as_test(OfTheseTwo, settings=examples(LIVES, times, steps=STEPS))
