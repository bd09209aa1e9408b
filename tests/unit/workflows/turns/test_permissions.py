"""The operator's rules inside a turn, where a model may write an Actor's name in any way."""

from typing import Any

import pytest

from outlast.workflows.contracts.sessions import TurnTool
from outlast.workflows.contracts.tool_calls import CarriedRule
from outlast.workflows.turns.steps import nameless_actor, nameless_plan, planned_actors, ruling_of

DENY = CarriedRule(tool="outlast--big-table", action="deny", text="*:outlast--big-table=deny")
ASK = CarriedRule(tool="call-*", action="ask", text="*:call-*=ask")


@pytest.mark.parametrize(
    "actor", ["outlast/big-table", "outlast~big-table", "Outlast/Big-Table", " outlast/big-table "]
)
def test_an_actor_is_denied_by_its_own_name_however_it_is_called(actor: str) -> None:
    ruling = ruling_of((ASK, DENY), "call-actor", actor)
    assert ruling is not None
    assert ruling.action == "deny"


def test_an_id_does_not_pass_by_the_name() -> None:
    assert nameless_actor((DENY,), "call-actor", "aB3xYz") is not None
    assert nameless_actor((), "call-actor", "aB3xYz") is None
    assert nameless_actor((DENY,), "call-actor", "outlast/big-table:search") is None


def test_no_rule_says_nothing() -> None:
    assert ruling_of((DENY,), "hello_world", None) is None


SCHEDULE = TurnTool(
    shown="create-schedule",
    name="create-schedule",
    planned_actors=("actions/*/actor",),
    planned_tasks=("actions/*/actorTaskId",),
    input_schema_json="{}",
)


def scheduling(*actions: dict[str, str]) -> dict[str, Any]:
    return {"cronExpression": "@yearly", "actions": [*actions]}


def test_what_is_run_later_on_counts_too() -> None:
    arguments = scheduling({"actor": "outlast/sleeper"}, {"actor": "outlast/big-table"})
    ruling = ruling_of((ASK, DENY), SCHEDULE.name, None, planned_actors(SCHEDULE, arguments))
    assert ruling is not None
    assert ruling.action == "deny"
    assert nameless_plan((DENY,), SCHEDULE, arguments) is None


@pytest.mark.parametrize("action", [{"actor": "aB3xYz"}, {"actorTaskId": "outlast/a-task"}])
def test_what_does_not_say_its_actor_is_refused_where_there_are_rules(action: dict[str, str]) -> None:
    refused = nameless_plan((DENY,), SCHEDULE, scheduling({"actor": "outlast/sleeper"}, action))
    assert refused is not None
    assert nameless_plan((), SCHEDULE, scheduling(action)) is None
    assert nameless_plan((DENY,), SCHEDULE, scheduling({"actor": "outlast/sleeper"})) is None
