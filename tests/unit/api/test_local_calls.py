"""Options from the calling program for the calls that `start-batch` and `schedule-call` start."""

import pytest

from outlast.api.access.principal import LOCAL
from outlast.api.adapters.adapter import CallScope
from outlast.api.local_calls import LocalCall
from outlast.contracts.batches import BatchSettings
from outlast.workflows.contracts.tool_calls import CallOptions
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.registry import base_tools

WEBHOOK = {"url": "https://example.com/hook", "secret": "whsec_" + "A" * 32}


def local_call(**options: object) -> LocalCall:
    scope = CallScope(options=CallOptions.model_validate(options))
    definition = base_tools("default").tools["start-batch"]
    return LocalCall(LOCAL, definition, {}, mode="default", options=scope.options_for_started_calls)


def test_options_of_a_program_reach_the_items_with_their_secrets() -> None:
    call = local_call(webhooks=[WEBHOOK], budget={"max_total_charge_usd": "0.5"})
    body = call.with_options({"tool": "call-actor", "options": {"budget": {"max_items": 3}}})
    options = BatchSettings.model_validate(body).options
    assert options.webhooks[0].secret.get_secret_value() == WEBHOOK["secret"]
    assert (str(options.budget.max_total_charge_usd), options.budget.max_items) == ("0.5", 3)


def test_an_option_that_the_model_sets_too_is_refused() -> None:
    call = local_call(budget={"max_total_charge_usd": "0.5"})
    with pytest.raises(ToolError) as caught:
        call.with_options({"options": {"budget": {"max_total_charge_usd": "5"}}})
    assert "'max_total_charge_usd'" in caught.value.envelope.message
