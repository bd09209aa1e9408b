"""Every id and name that a caller or a model sends has a maximum length."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from outlast.activities.failures.classify import RETRYABLE, ToolFailure, category_of_status
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.contracts.sessions import MessageRequest, SessionRequest
from outlast.contracts.tasks import TaskRequest
from outlast.workflows.tools.registry import COMMON, MODES, ON_DEMAND

TEXTS = {"message", "text", "data", "url", "media_type", "description", "max_total_charge_usd", "usd"}
"""Neither ids nor names; the size of a request limits them."""


def endless(schema: Any, name: str = "") -> Iterator[str]:
    """The names of strings without a maximum length."""
    if not isinstance(schema, Mapping):
        return
    is_open = not {"maxLength", "enum", "const", "pattern", "format"} & set(schema)
    if schema.get("type") == "string" and is_open:
        yield name
    for group in ("properties", "$defs"):
        for key, part in schema.get(group, {}).items():
            yield from endless(part, key)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from endless(part, name)
    yield from endless(schema.get("items"), name)


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda mode: mode.name)
def test_arguments_of_tools(mode: Any) -> None:
    if mode.shares is not None:
        return  # Its schemas are those of a peer; the activities bound what stands in an address.
    tools = (*mode.tools, *COMMON, *ON_DEMAND.values())
    found = {(tool.name, name) for tool in tools for name in endless(tool.input_schema)}
    # Texts with commas instead of a list, and numbers: the parsed value has limits.
    numbers = {"maxTotalChargeUsd", "budgetUsd", "itemBudgetUsd"}
    assert {name for _, name in found} <= {"fields", "omit", "flatten", *numbers}


@pytest.mark.parametrize("model", [TaskRequest, SessionRequest, MessageRequest])
def test_requests(model: Any) -> None:
    assert set(endless(model.model_json_schema())) <= TEXTS


@pytest.mark.parametrize("status", [400, 405, 411, 414, 415, 417, 431, 451])
def test_what_a_server_refuses_for_its_form_is_not_tried_again(status: int) -> None:
    assert category_of_status(status) not in RETRYABLE


def test_no_request_is_made_with_an_id_that_fits_no_address() -> None:
    platform = ApifyPlatform(api_base_url="https://api", operator_token=None, sealer=SecretSealer.ephemeral())
    with pytest.raises(ToolFailure, match="The limit is 1000") as refused:
        platform.url_of("actor-runs", "x" * 100_000)
    assert not refused.value.envelope.retryable
