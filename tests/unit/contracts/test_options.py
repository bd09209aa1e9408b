"""Options are declared once, for every field of the REST API's requests, with the API's names and bounds."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.api.adapters.routes import CallsBody
from outlast.contracts import options as declared
from outlast.contracts.batches import BatchRequest, RetryRequest
from outlast.contracts.operations import UsageQuery
from outlast.contracts.options import Option, options_of, to_wire
from outlast.contracts.schedules import SaveCallRequest, ScheduleChanges, ScheduledCall, ScheduleRequest
from outlast.contracts.sessions import MessageRequest, SessionRequest
from outlast.contracts.tasks import ResurrectRequest, TaskListing, TaskRequest
from tests.support.paths import ROOT

PARAMETERS = {"tool", "arguments"}
"""What the methods of the client take as parameters of their own."""
KINDS: list[tuple[type, type[BaseModel], set[str]]] = [
    (declared.CallOptions, TaskRequest, PARAMETERS),
    # The API refuses these two for calls that start later.
    (declared.SavedCallOptions, SaveCallRequest, PARAMETERS | {"options.reuse", "options.webhooks"}),
    (declared.SharedOptions, ScheduledCall, PARAMETERS | {"options.reuse", "options.webhooks"}),
    # An adapter's calls are those of a message, with its ids; `wait` is no option of a call.
    (
        declared.StartOptions,
        CallsBody,
        {"message", "session_id", "message_id", "tools", "wait", "options.webhooks"},
    ),
    (declared.BatchOptions, BatchRequest, PARAMETERS | {"items", "rows"}),
    (declared.BatchChanges, RetryRequest, set()),
    (declared.ResurrectOptions, ResurrectRequest, set()),
    (declared.ScheduleOptions, ScheduleRequest, {"id", "paused"}),
    (declared.ScheduleOptions, ScheduleChanges, set()),
    (declared.SessionOptions, SessionRequest, set()),
    (declared.MessageOptions, MessageRequest, {"message", "stream"}),
    (declared.UsageOptions, UsageQuery, {"format", "csv_safe"}),
    (declared.TaskFilter, TaskListing, {"page_size", "page_token"}),
]


def fields(schema: dict[str, Any], wanted: set[str], prefix: str = "", root: Any = None) -> Iterator[tuple[str, Any]]:
    """The fields of a JSON Schema by their dotted paths, down to those that are `wanted` or have no wanted ones."""
    root = root or schema
    for name, field in resolved(schema, root).get("properties", {}).items():
        path = f"{prefix}{name}"
        if path not in wanted and any(one.startswith(f"{path}.") for one in wanted):
            yield from fields(resolved(field, root), wanted, f"{path}.", root)
        else:
            yield path, resolved(field, root)


def resolved(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """The schema behind a reference, or the one beside null."""
    if "$ref" in schema:
        return root["$defs"][schema["$ref"].rpartition("/")[2]]
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    return resolved(choices[0], root) if len(choices) == 1 else schema


def cases(kind: type, model: type[BaseModel]) -> tuple[dict[str, Option], dict[str, Any]]:
    """The options of a kind by their paths in the body, and the fields of the request."""
    by_path = {option.wire: option for option in options_of(kind).values() if option.wire is not None}
    return by_path, dict(fields(model.model_json_schema(), set(by_path)))


@pytest.mark.parametrize(("kind", "model", "parameters"), KINDS)
def test_every_field_of_a_request_has_its_option_and_every_option_its_field(
    kind: type, model: type[BaseModel], parameters: set[str]
) -> None:
    by_path, request = cases(kind, model)
    assert {*by_path} == {*request} - parameters


@pytest.mark.parametrize(("kind", "model", "parameters"), KINDS)
def test_bounds_are_those_of_the_api(kind: type, model: type[BaseModel], parameters: set[str]) -> None:
    by_path, request = cases(kind, model)
    for path, option in by_path.items():
        if request[path].get("type") == "integer":
            schema = request[path]
            least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
            assert option.min is None or option.min == least, path
            assert option.max is None or option.max == schema.get("maximum"), path


def test_the_api_takes_what_the_options_become() -> None:
    chosen: declared.CallOptions = {
        "max_usd": 0.1,
        "max_items": 5,
        "max_run_seconds": 1.2,
        "deadline_seconds": 0.2,
        "reuse": "6h",
        "refresh": False,
        "resurrect": 0,
        "compress": False,
        "keep_output_seconds": 90.4,
        "until": {"rows": 3},
        "tool_mask": {"default": True},
        "mode": None,
    }
    body = to_wire(declared.CallOptions, chosen)
    assert body == {
        "options": {
            "deadline_seconds": 1,
            "budget": {"max_total_charge_usd": "0.1", "max_items": 5, "max_run_seconds": 1},
            "until": {"rows": 3},
            "resurrect": {"max_times": 0},
            "output": {"compress": False, "ttl_seconds": 90},
            "reuse": {"max_age": "6h"},
        },
        "toolMask": {"default": True},
    }
    assert TaskRequest.model_validate({"tool": "t", **body}).options.budget.max_items == 5


def test_times_and_lists_of_a_schedule() -> None:
    body = to_wire(
        declared.ScheduleOptions,
        {"cron": "17 2 * * *", "every_seconds": 90.2, "saved": "nap", "start_at": datetime(2026, 1, 2, tzinfo=UTC)},
    )
    assert (body["cron"], body["every"], body["saved"]) == (["17 2 * * *"], [{"seconds": 90}], {"name": "nap"})
    assert datetime.fromisoformat(str(body["start_at"])) == datetime(2026, 1, 2, tzinfo=UTC)
    assert to_wire(declared.UsageOptions, {"first_day": date(2026, 1, 2)}) == {"from": "2026-01-02"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_usdd": 1}, "Unknown option 'max_usdd': did you mean max_usd?"),
        ({"timeout": 1}, "Unknown option 'timeout': did you mean timeout_seconds?"),
        ({"xyz": 1}, "Unknown option 'xyz': known are mode, "),
        ({"max_usdd": None}, "did you mean max_usd?"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(options: Mapping[str, Any], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        to_wire(declared.CallOptions, options, known=("timeout_seconds",))
    assert text in str(caught.value)


def test_flags_of_one_kind_are_distinct() -> None:
    for kind in (declared.CallOptions, declared.BatchOptions, declared.SavedCallOptions):
        flags = [option.flag for option in options_of(kind).values() if option.flag]
        assert len(flags) == len(set(flags))


def test_the_documentation_names_every_option() -> None:
    page = "".join((ROOT / "docs" / name).read_text() for name in ("python-client.md", "call-options.md"))
    kinds = {kind for kind, _, _ in KINDS}
    missing = {name for kind in kinds for name in options_of(kind) if not re.search(rf"\b{name}\b", page)}
    assert missing == set()
