"""Options in the `_meta` of an MCP call: by their declared names, or in the nested form of the REST API."""

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from outlast.api.mcp.protocol.request_meta import META_OPTIONS, OPTIONS_META, task_request
from outlast.contracts.options import CallOptions, options_of


def options_in(meta_options: Any) -> dict[str, Any]:
    return task_request({OPTIONS_META: meta_options}, tool="t").options.model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"max_usd": 0.5, "max_items": 3}, {"budget": {"max_total_charge_usd": "0.5", "max_items": 3}}),
        ({"max_usd": "0.50"}, {"budget": {"max_total_charge_usd": "0.5"}}),
        ({"reuse": "6h", "max_usd": None}, {"reuse": {"max_age": "6h"}}),
        ({"reuse": {"max_age": "6h"}}, {"reuse": {"max_age": "6h"}}),
        ({"reuse": {"max_age": "6h"}, "refresh": True}, {"reuse": {"max_age": "6h", "refresh": True}}),
        ({"resurrect": 2, "until": {"rows": 9}}, {"resurrect": {"max_times": 2}, "until": {"rows": 9}}),
        ({"budget": {"max_items": 3}, "max_usd": 1}, {"budget": {"max_items": 3, "max_total_charge_usd": "1.0"}}),
        (
            {"output": {"compress": False}, "keep_output_seconds": 90},
            {"output": {"compress": False, "ttl_seconds": 90}},
        ),
        ({"deadline_seconds": 60, "run_heartbeat_seconds": 5}, {"deadline_seconds": 60, "run_heartbeat_seconds": 5}),
    ],
)
def test_both_forms_become_the_same_options(given: dict[str, Any], becomes: dict[str, Any]) -> None:
    assert options_in(given) == becomes


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_usdd": 1}, "Unknown field 'max_usdd': did you mean 'max_usd'?"),
        ({"resurrect": 11}, "resurrect: Input should be less than or equal to 10"),
        ({"deadline_seconds": 0}, "greater than 0"),
        ({"budget": {"maxItems": 5}}, "did you mean 'max_items'?"),
        ({"max_usd": 1, "budget": {"max_total_charge_usd": 2}}, "twice"),
        ({"session_id": "s"}, "Unknown field 'session_id'"),
        ("all", "dict"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(given: Any, text: str) -> None:
    with pytest.raises(MCPError) as refused:
        options_in(given)
    assert OPTIONS_META in str(refused.value)
    assert text in str(refused.value)


def test_every_option_of_a_call_has_its_place_in_meta() -> None:
    keys = {"session_id", "message_id", "tool_call_id", "tool_mask", "idempotency_key"}
    """These have their own keys in `_meta`; the mode is the connection's."""
    assert {*options_of(CallOptions)} == META_OPTIONS.names | keys | {"mode"}
