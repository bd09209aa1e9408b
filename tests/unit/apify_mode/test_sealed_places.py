"""Tools say where their arguments may hold secrets; what lies there is sealed, and nothing else."""

from typing import Any

from outlast.activities.contracts import Caller
from outlast.activities.platform_writes.activities import with_text_at
from outlast.activities.secrets.sealed_json import open_values
from outlast.activities.secrets.sealer import SecretSealer
from outlast.api.tasks.sealing import seal_arguments
from outlast.workflows.tools.registry import tools_of
from tests.support.stacks.service import SEAL_KEYS

SEALER = SecretSealer.from_text(SEAL_KEYS)
CALLER = Caller(id="local")
TOOLS = {definition.name: definition for definition in tools_of("apify")}


def sealed(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return seal_arguments(TOOLS[tool], arguments, None, SEALER, CALLER)


def test_the_input_of_a_saved_task_is_sealed_as_a_whole() -> None:
    given = {"actorId": "a/b", "name": "n", "input": {"password": "hidden"}}
    found = sealed("create-actor-task", given)
    assert "hidden" not in str(found)
    assert (found["actorId"], found["name"]) == ("a/b", "n")
    assert open_values(found, SEALER, purpose=CALLER.id) == given


def test_each_input_of_a_schedule_is_sealed_and_its_targets_are_not() -> None:
    given = {
        "cronExpression": "@daily",
        "actions": [{"actorId": "a/b", "input": {"password": "hidden"}}, {"taskId": "t"}, "input"],
        "input": "elsewhere",
    }
    found = sealed("create-schedule", given)
    assert "hidden" not in str(found)
    assert [action if isinstance(action, str) else {**action, "input": None} for action in found["actions"]] == [
        {"actorId": "a/b", "input": None},
        {"taskId": "t", "input": None},
        "input",
    ]
    assert found["input"] == "elsewhere"
    assert open_values(found, SEALER, purpose=CALLER.id) == given


def test_a_text_is_made_of_what_lies_at_a_place() -> None:
    body = {"actions": [{"runInput": {"body": {"a": [1, "ž"]}}}, {"input": {"body": 1}}, 3], "body": {"x": 1}}
    texts = {"actions": [{"runInput": {"body": '{"a":[1,"ž"]}'}}, {"input": {"body": 1}}, 3], "body": {"x": 1}}
    assert with_text_at(body, ["actions", "*", "runInput", "body"]) == texts
