"""Which failures are the same, and which answers: a table of cases."""

from typing import Any

import pytest

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.secrets import is_sealed
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.signatures import answer_signature, signature

C = ErrorCategory
Json = dict[str, Any]
ONE_SECRET = {"$sealed": {"key_id": "k", "ciphertext": "abc"}}
THE_SAME_SECRET = {"$sealed": {"key_id": "k", "ciphertext": "xyz"}}
INPUT = {"actor": "user/actor", "input": {"url": "https://example.com"}}


def failed(message: str, category: ErrorCategory = C.UNKNOWN, tool: str = "t", **fields: Any) -> ErrorEnvelope:
    return ErrorEnvelope(tool=tool, message=message, category=category, retryable=False, **fields)


def flawed(path: str, message: str) -> ErrorEnvelope:
    return failed("The arguments are wrong.", C.VALIDATION, violations=(Violation(path=path, message=message),))


SAME = {
    "another run": (
        (failed("Run HG7ML7M8z78YcAPEB ended as FAILED: out of luck"), INPUT),
        (failed("Run pQr9sTuVwXyZ1a2B3 ended as FAILED: out of luck"), INPUT),
    ),
    "another task": (
        (failed("call-actor-0c9cbbf53d14e59e1f0a is not done"), INPUT),
        (failed("call-actor-99887766554433221100 is not done"), INPUT),
    ),
    "another stored output": (
        (failed("out_abcdefghijklmnop has expired"), {}),
        (failed("out_qrstuvwxyz234567 has expired"), {}),
    ),
    "another UUID": (
        (failed("request 0b0e3c3e-9df1-4a52-8a53-6d0d2f7d5b11 failed"), {}),
        (failed("request 5f1c1f0a-3d0e-4f7a-9a55-0a51d1cf2c22 failed"), {}),
    ),
    "other times": (
        (failed("failed at 2026-11-22T13:00:01.123Z after 1.5 s"), {}),
        (failed("failed at 2026-11-23T01:59:59.007Z after 12 s"), {}),
    ),
    "other counts": ((failed("12 of 100 pages failed"), {}), (failed("7 of 93 pages failed"), {})),
    "another attempt and hint": (
        (failed("No.", attempt=1, hint="Try a."), {}),
        (failed("No.", attempt=7, hint=None), {}),
    ),
    "arguments in another order": ((failed("No."), {"a": 1, "b": 2}), (failed("No."), {"b": 2, "a": 1})),
    "the same secret, sealed again": (
        (failed("No."), {"password": ONE_SECRET}),
        (failed("No."), {"password": THE_SAME_SECRET}),
    ),
    "the same flaw in another value": (
        (flawed("/limit", "5000 is greater than the maximum of 1000"), {"limit": 5000}),
        (flawed("/limit", "4000 is greater than the maximum of 1000"), {"limit": 4000}),
    ),
    "an unknown tool, whatever its arguments": (
        (failed("There is no tool.", C.NOT_FOUND, allowed_tools=("a",)), {"x": 1}),
        (failed("There is no tool.", C.NOT_FOUND, allowed_tools=("a",)), {"x": 2}),
    ),
    "a masked tool, when no other may be called": (
        (failed("It is switched off.", C.PERMISSION, allowed_tools=()), {"x": 1}),
        (failed("It is switched off.", C.PERMISSION, allowed_tools=()), {"x": 2}),
    ),
    "a wrong token, whatever the arguments": (
        (failed("The platform answered 401.", C.AUTHENTICATION), {"x": 1}),
        (failed("The platform answered 401.", C.AUTHENTICATION), {"x": 2}),
    ),
}
DIFFERENT = {
    "two look-ups of unknown ids": (
        (failed("There is no run of this id.", C.NOT_FOUND), {"runId": "HG7ML7M8z78YcAPEB"}),
        (failed("There is no run of this id.", C.NOT_FOUND), {"runId": "pQr9sTuVwXyZ1a2B3"}),
    ),
    "two questions about one failed run": (
        (failed("Run HG7ML7M8z78YcAPEB has no such rows"), {"runId": "HG7ML7M8z78YcAPEB", "offset": 0}),
        (failed("Run HG7ML7M8z78YcAPEB has no such rows"), {"runId": "HG7ML7M8z78YcAPEB", "offset": 9}),
    ),
    "another input": ((failed("It failed."), INPUT), (failed("It failed."), {**INPUT, "input": {"url": "x"}})),
    "another tool": ((failed("No.", tool="a"), {}), (failed("No.", tool="b"), {})),
    "another category": ((failed("No.", C.NETWORK), {}), (failed("No.", C.TIMEOUT), {})),
    "another message": ((failed("It is gone."), {}), (failed("It is closed."), {})),
    "another word of a run's length": (
        (failed("straightforwardly refused"), {}),
        (failed("interdisciplinary refused"), {}),
    ),
    "another flaw at the same place": ((flawed("/url", "is blank"), {}), (flawed("/url", "is too long"), {})),
    "the same flaw at another place": ((flawed("/a", "is blank"), {}), (flawed("/b", "is blank"), {})),
    "with arguments and without": ((failed("No."), {"a": 1}), (failed("No."), {})),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_equal_failures_have_one_signature(one: tuple[ErrorEnvelope, Json], other: tuple[ErrorEnvelope, Json]) -> None:
    assert signature(*one) == signature(*other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_different_failures_have_two(one: tuple[ErrorEnvelope, Json], other: tuple[ErrorEnvelope, Json]) -> None:
    assert signature(*one) != signature(*other)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (("t", {"a": 1}, "Run R2 is SUCCEEDED.", "R2"), True),
        (("t", {"a": 2}, "Run R1 is SUCCEEDED.", "R1"), False),
        (("t", {"a": 1}, "Run R1 is SUCCEEDED. 12 of 100 pages", "R1"), False),
        (("t", {"a": 1}, "Run R2 is SUCCEEDED.", None), False),
        (("u", {"a": 1}, "Run R1 is SUCCEEDED.", "R1"), False),
    ],
    ids=["another-run", "another-argument", "progress", "an-id-that-is-no-runs", "another-tool"],
)
def test_the_same_call_with_the_same_answer_is_known_again(
    other: tuple[str, Json, str, str | None], is_same: bool
) -> None:
    def of(tool: str, arguments: Json, text: str, run: str | None) -> str:
        storages = {"datasets": {"default": {"id": f"D{run}"}}, "keyValueStores": {"default": {"id": f"K{run}"}}}
        structured: Json | None = {"runId": run, "storages": storages} if run else None
        content = (TextContent(text=f"{text} Its rows are in D{run}." if run else text),)
        return answer_signature(tool, arguments, ToolResult(content=content, structured=structured))

    assert (of("t", {"a": 1}, "Run R1 is SUCCEEDED.", "R1") == of(*other)) is is_same


def test_the_sealed_values_of_these_cases_are_sealed_values() -> None:
    assert is_sealed(ONE_SECRET)
