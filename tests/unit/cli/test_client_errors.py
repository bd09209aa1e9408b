"""From an error response to what the user reads."""

import json

import httpx
import pytest

from outlast.cli.options import CliError, ExitCode
from outlast.cli.runner import cli_error
from outlast.client import ConnectionFailed, NoServer, OutlastError, WaitTimedOut
from outlast.client.retries import api_error


def error_from_response(status: int, body: bytes) -> CliError:
    return cli_error(api_error(httpx.Response(status, content=body)))


def test_a_refused_call_names_every_violation_and_what_to_do() -> None:
    problem = {
        "type": "urn:outlast:problem:invalid-call",
        "title": "The call is invalid",
        "status": 422,
        "detail": "The arguments of t do not fit its schema.",
        "error": {
            "tool": "t",
            "message": "…",
            "hint": "Mend every violation.",
            "violations": [{"path": "/seconds", "message": "not a number"}, {"path": "", "message": "too many"}],
            "allowed_tools": None,
        },
    }
    error = error_from_response(422, json.dumps(problem).encode())
    assert error.message == "The arguments of t do not fit its schema."
    assert error.lines == ("/seconds: not a number", "(arguments): too many")
    assert error.hint == "Mend every violation."
    assert error.exit_code is ExitCode.USAGE
    assert error.document()["error"]["problem"] == problem


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (401, 4), (403, 4), (404, 2), (409, 2), (413, 2), (429, 3), (500, 5), (502, 3), (503, 3), (504, 3)],
)
def test_the_exit_code_follows_the_status(status: int, code: int) -> None:
    assert error_from_response(status, b"").exit_code == code


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"[]", b"\xff", b'{"detail": 7}'])
def test_an_answer_that_is_no_problem_document_is_named_by_its_status(body: bytes) -> None:
    assert error_from_response(502, body).message == "The server answered 502 Bad Gateway."


def test_an_answer_of_another_program_says_to_check_the_address() -> None:
    assert error_from_response(404, b"<html>Not found</html>").hint is not None
    assert error_from_response(404, b'{"title": "The task was not found"}').hint is None


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConnectionFailed("m"), 3), (NoServer("m"), 3), (WaitTimedOut("m"), 6), (OutlastError("m", hint="do this"), 2)],
)
def test_errors_without_a_response_have_exit_codes_too(error: OutlastError, code: int) -> None:
    told = cli_error(error)
    assert (told.exit_code, told.message, told.hint) == (code, "m", error.hint)
