"""What every Actor folder must have, so that it works on Apify and in the sandbox."""

import json

import pytest
from jsonschema import Draft7Validator

from tests.integration.actors.actor_process import ACTORS, actor_module

NAMES = ["big-table", "site-crawler", "sleeper"]


def read(actor: str, name: str) -> dict:
    return json.loads((ACTORS / actor / ".actor" / name).read_text())


@pytest.mark.parametrize("actor", NAMES)
def test_the_definition_names_files_that_exist(actor):
    definition = read(actor, "actor.json")
    files = [definition["input"], definition["storages"]["dataset"], definition["readme"], definition["dockerfile"]]

    assert definition["name"] == actor
    assert definition["actorSpecification"] == 1
    assert all((ACTORS / actor / ".actor" / file).is_file() for file in files)


@pytest.mark.parametrize("actor", NAMES)
def test_the_input_schema_describes_every_field_and_its_defaults_are_valid(actor):
    schema = read(actor, "input_schema.json")
    Draft7Validator.check_schema(schema)
    fields = schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    filled_in = defaults | {name: field["prefill"] for name, field in fields.items() if "prefill" in field}

    assert all(field["title"] and field["description"] and field["editor"] for field in fields.values())
    Draft7Validator(schema).validate(filled_in)


@pytest.mark.parametrize("actor", NAMES)
def test_the_schemas_defaults_are_those_of_the_code(actor):
    schema = read(actor, "input_schema.json")
    required = {name: schema["properties"][name]["prefill"] for name in schema["required"]}
    defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
    parse = actor_module(actor, "settings").Settings.parse

    assert parse(required) == parse(required | defaults)


@pytest.mark.parametrize("actor", NAMES)
def test_the_dataset_schema_describes_the_fields_of_its_views(actor):
    schema = read(actor, "dataset_schema.json")
    Draft7Validator.check_schema(schema["fields"])
    described = schema["fields"]["properties"].keys()

    assert all(view["transformation"]["fields"] for view in schema["views"].values())
    assert all(described >= set(view["transformation"]["fields"]) for view in schema["views"].values())


def test_what_several_actors_need_is_the_same_in_all_of_them():
    copies = {(ACTORS / actor / "src" / "interruption.py").read_text() for actor in NAMES}

    assert len(copies) == 1


def test_the_module_that_every_actor_repeats_is_the_same_in_all():
    copies = {(ACTORS / actor / "src" / "interruption.py").read_text() for actor in NAMES}

    assert len(copies) == 1
