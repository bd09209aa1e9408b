"""Tools say where their arguments may hold secrets; what lies there is sealed, and nothing else."""

from typing import Any

import pytest

from outlast.activities.contracts import Caller
from outlast.activities.platform_requests.activities import with_text_at, without
from outlast.activities.secrets import SecretSealer, open_values
from outlast.api.tasks.recorded_arguments import seal_arguments
from outlast.workflows.tools.registry import tools_of
from tests.support.stacks.service import SEAL_KEYS

SEALER = SecretSealer.from_text(SEAL_KEYS)
CALLER = Caller(id="local")
MODES = pytest.mark.parametrize(
    ("mode", "actor", "task"), [("apify", "actorId", "taskId"), ("default", "actor", "actorTaskId")]
)


def sealed(mode: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    definition = next(each for each in tools_of(mode) if each.name == tool)
    return seal_arguments(definition, arguments, None, SEALER, CALLER)


@MODES
def test_the_input_of_a_saved_task_is_sealed_as_a_whole(mode: str, actor: str, task: str) -> None:
    given = {actor: "a/b", "name": "n", "input": {"password": "hidden"}}
    found = sealed(mode, "create-actor-task", given)
    assert "hidden" not in str(found)
    assert (found[actor], found["name"]) == ("a/b", "n")
    assert "hidden" not in str(sealed(mode, "update-actor-task", {task: "t", "input": {"password": "hidden"}}))
    assert open_values(found, SEALER, purpose=CALLER.id) == given


@MODES
def test_each_input_of_a_schedule_is_sealed_and_its_targets_are_not(mode: str, actor: str, task: str) -> None:
    given = {
        "cronExpression": "@daily",
        "actions": [{actor: "a/b", "input": {"password": "hidden"}}, {task: "t"}, "input"],
        "input": "elsewhere",
    }
    found = sealed(mode, "create-schedule", given)
    assert "hidden" not in str(found)
    assert [action if isinstance(action, str) else {**action, "input": None} for action in found["actions"]] == [
        {actor: "a/b", "input": None},
        {task: "t", "input": None},
        "input",
    ]
    assert found["input"] == "elsewhere"
    assert open_values(found, SEALER, purpose=CALLER.id) == given


def test_a_text_is_made_of_what_lies_at_a_place() -> None:
    body = {"actions": [{"runInput": {"body": {"a": [1, "ž"]}}}, {"input": {"body": 1}}, 3], "body": {"x": 1}}
    texts = {"actions": [{"runInput": {"body": '{"a":[1,"ž"]}'}}, {"input": {"body": 1}}, 3], "body": {"x": 1}}
    assert with_text_at(body, ["actions", "*", "runInput", "body"]) == texts


def test_what_may_be_secret_is_left_out_of_an_answer() -> None:
    schedule = {"id": "s", "actions": [{"id": 1, "runInput": {"body": "x"}}, {"input": {"a": 1}, "id": 2}, 3]}
    for place in ("actions/*/runInput", "actions/*/input", "nowhere/*/input", "id/input"):
        schedule = without(schedule, place.split("/"))  # type: ignore[assignment]
    assert schedule == {"id": "s", "actions": [{"id": 1}, {"id": 2}, 3]}
