"""Options that a program gives to `Adapter.answer`, by name or in the form of the REST API."""

from decimal import Decimal
from typing import Any, cast

import pytest

from outlast.api.adapters.adapter import chosen_options
from outlast.contracts.options import StartOptions
from outlast.workflows.contracts.tool_calls import CallOptions


def test_options_are_taken_by_name() -> None:
    chosen = chosen_options(None, {"max_usd": 0.5, "reuse": "6h", "tool_mask": {"get-actor-run": True}})
    assert chosen.budget.max_total_charge_usd == Decimal("0.5")
    assert chosen.reuse is not None
    assert chosen.reuse.max_age == "6h"


@pytest.mark.parametrize("options", [None, CallOptions(deadline_seconds=60)])
def test_the_form_of_the_rest_api_is_taken_too(options: CallOptions | None) -> None:
    assert chosen_options(options, {"tool_mask": {}}) == (options or CallOptions())


@pytest.mark.parametrize(
    ("options", "by_name", "text"),
    [
        (None, {"max_usdd": 1}, "did you mean max_usd"),
        (None, {"mode": "openai"}, "'mode'"),
        (None, {"idempotency_key": "k"}, "'idempotency_key'"),
        (CallOptions(), {"max_usd": 1}, "Give options by name, or `options`"),
    ],
)
def test_other_options_are_refused(options: CallOptions | None, by_name: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        chosen_options(options, cast(StartOptions, by_name))
