"""`str(error)` has all that a person needs: the message, then violations and "did you mean", then the hint."""

import json
from typing import Any

import httpx
import pytest

from outlast.client import InvalidRequest, OutlastError, TaskAnswer, TaskFailed
from outlast.client.requests import call_body
from outlast.client.retries import api_error

PROBLEM = {
    "title": "The call is invalid",
    "detail": "The arguments of t do not fit its schema.",
    "error": {
        "message": "...",
        "hint": "Mend every violation.",
        "violations": [
            {"path": "/secnds", "message": "is not known; did you mean 'seconds'?"},
            {"path": "", "message": "too many"},
        ],
        "allowed_tools": ["a", "b"],
    },
}


def refusal(document: object) -> str:
    error = api_error(httpx.Response(422, content=json.dumps(document).encode()))
    assert isinstance(error, InvalidRequest)
    return str(error)


def test_a_refusal_lists_its_violations_before_its_hint() -> None:
    assert refusal(PROBLEM).splitlines() == [
        "The arguments of t do not fit its schema.",
        "  /secnds: is not known; did you mean 'seconds'?",
        "  (arguments): too many",
        "  Available tools: a, b",
        "Hint: Mend every violation.",
    ]


def test_many_violations_are_cut() -> None:
    many = [{"path": f"/items/{number}", "message": "is wrong"} for number in range(500)]
    lines = refusal({"detail": "No.", "violations": many}).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  ... and 480 more"


def test_a_failed_task_has_the_hint_of_its_tool() -> None:
    answer = TaskAnswer.model_validate(
        {
            "task": {
                "id": "t-1",
                "tool": "t",
                "status": "failed",
                "mode": "default",
                "executor": "sync",
                "created_at": "2026-01-01T00:00:00Z",
            },
            "result": {
                "is_error": True,
                "error": {
                    "tool": "t",
                    "message": "It broke.",
                    "category": "unknown",
                    "retryable": False,
                    "hint": "Try it.",
                    "violations": [{"path": "/a", "message": "b"}],
                },
            },
        }
    )
    assert str(TaskFailed(answer)).splitlines() == ["Task t-1 (t) failed: It broke.", "  /a: b", "Hint: Try it."]


def test_an_error_without_details_is_its_message() -> None:
    assert str(OutlastError("It broke.")) == "It broke."


def test_a_violation_that_is_the_message_is_not_repeated() -> None:
    violations = [{"path": "/options", "message": "Input should be an object"}]
    assert refusal({"detail": "/options: Input should be an object", "violations": violations}) == (
        "/options: Input should be an object"
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "options", "problem"),
    [
        ("hello", "Ann", {}, "The arguments of hello are one dict, such as {'name': value}, not of type str."),
        ("hello", [1], {}, "not of type list."),
        (None, {}, {}, "The tool is a name, such as 'search-actors', not None."),
        ("hello", None, {"city": "Prague"}, "The arguments of a tool are one dict, the second parameter."),
    ],
)
def test_a_call_of_another_form_says_which_one_is_right(tool: Any, arguments: Any, options: Any, problem: str) -> None:
    with pytest.raises(TypeError) as error:
        call_body(tool, arguments, options)
    assert str(error.value).endswith(problem)
