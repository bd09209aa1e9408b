"""Requests made up from the published OpenAPI document: the API keeps what it promises, to each of two callers."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure, HypothesisException
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import Case, Response
from schemathesis.checks import CheckFunction
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from tests.support.hostile.made_up_requests import CHECKS, published, sent, sent_and_validated
from tests.support.hostile.party import Party
from tests.support.hostile.texts import TEXTS, TIMES, as_json, examples, mostly
from tests.support.stacks.service import Service

OF_EACH_OPERATION = 3
OF_EACH_TOOL = 10
LIVES, STEPS = 6, 12
PLAIN = st.sampled_from(["x", 1, True, ["x"], {}, "outlast/absent", {"seconds": 0}])
JSON_TYPE = {"Content-Type": "application/json"}
FOR_PROGRAMS = "/metrics"
TOOLS = {
    "get-dataset-items": ["datasetId", "offset", "limit", "fields", "omit", "clean", "desc"],
    "get-actor-run": ["runId"],
    "get-actor-log": ["runId", "lines"],
    "call-actor": ["actor", "input", "callOptions"],
    "say": ["text", "times", "note"],
}
FOUND_ONCE = {
    "/v1/tools/say/call": {"mode": ""},
}
"""Requests that were answered with 500."""


@TIMES
def test_requests_made_up_from_the_document_are_answered_as_it_says(
    service: Service, everybody: list[Party], times: int
) -> None:
    for result in published(service.api_url).get_all_operations():
        assert isinstance(result, Ok), result
        if result.ok().path != FOR_PROGRAMS:
            answered_as_described(result.ok(), everybody, times)


def answered_as_described(operation: APIOperation[Any, Any, Any, Any], everybody: list[Party], times: int) -> None:
    """Ask for one operation with parameters and bodies made up from its description."""

    @given(case=operation.as_strategy(), who=st.sampled_from(everybody))
    @examples(OF_EACH_OPERATION, times)
    def answers(case: Case, who: Party) -> None:
        sent_and_validated(who, case)

    answers()


@pytest.mark.thorough
@TIMES
def test_requests_that_follow_from_answers(service: Service, everybody: list[Party], times: int) -> None:
    """What one answer names (tasks, sessions, turns, outputs) is asked for in the next request, by both callers."""
    turns = itertools.cycle([0, 0, 1])
    failures: list[Exception] = []

    class Lives(published(service.api_url).as_state_machine()):
        def call(self, case: Case, **_: Any) -> Response:
            who = everybody[next(turns)]
            if isinstance(case.body, dict) and case.path == "/v1/sessions":
                case.body["title"] = who.canary
            with noted(failures):
                return sent(who, case)

        def validate_response(
            self,
            response: Response,
            case: Case,
            additional_checks: list[CheckFunction] | None = None,
            **kwargs: Any,
        ) -> None:
            with noted(failures):
                case.validate_response(response, checks=list(CHECKS))

    try:
        run_state_machine_as_test(Lives, settings=examples(LIVES, times, steps=STEPS))
    except FlakyFailure as flaky:
        # What failed once has failed. An assumption that held only once is no failure of the API.
        failures += [error for error in flaky.exceptions if not isinstance(error, HypothesisException)]
    except Flaky:
        pass  # what comes next depends on answers, which are not the same twice: Hypothesis gives up
    assert not failures, failures[0]


@contextmanager
def noted(failures: list[Exception]) -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        failures.append(failure)
        raise


@TIMES
@pytest.mark.parametrize("tool", TOOLS)
def test_whatever_arguments_a_tool_is_given_it_answers_or_refuses(
    everybody: list[Party], tool: str, times: int
) -> None:
    statuses: set[int] = set()

    @given(
        arguments=st.dictionaries(mostly(st.sampled_from(TOOLS[tool]), TEXTS), mostly(PLAIN), max_size=4),
        who=st.sampled_from(everybody),
    )
    @examples(OF_EACH_TOOL, times)
    def answers(arguments: dict[str, Any], who: Party) -> None:
        response = who.ask(
            "POST", f"/v1/tools/{tool}/call", content=as_json({"arguments": arguments}), headers=JSON_TYPE
        )
        statuses.add(response.status_code)
        assert response.status_code in {200, 202, 400, 404, 413, 422}, response.text

    answers()
    assert 422 in statuses


@pytest.mark.parametrize("path", FOUND_ONCE)
def test_what_was_a_defect_once_is_refused(everybody: list[Party], path: str) -> None:
    assert everybody[0].ask("POST", path, json=FOUND_ONCE[path]).status_code == 422
