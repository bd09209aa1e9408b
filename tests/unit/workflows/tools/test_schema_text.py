"""Schemas of tools are made when they are first read, once."""

import subprocess
import sys

import pytest
from pydantic import JsonValue

from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.tool import Arguments

_MADE_AT_THE_START = """
from pydantic import BaseModel
made, make = [], BaseModel.model_json_schema.__func__
BaseModel.model_json_schema = classmethod(lambda cls, **options: made.append(cls) or make(cls, **options))
import outlast.PROCESS.__main__
from outlast.workflows.tools.registry import tools_of
models = {tool.arguments for tool in tools_of("default")}
print(len(models) > 20, [model.__name__ for model in models if model in made], len(made) < 5)
"""


class Given(Arguments):
    name: str


@pytest.mark.slow
@pytest.mark.parametrize("process", ["api", "worker"])
def test_a_process_starts_without_the_schemas_of_its_tools(process: str) -> None:
    command = [sys.executable, "-P", "-c", _MADE_AT_THE_START.replace("PROCESS", process)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True [] True\n"


def test_a_schema_is_made_once() -> None:
    made: list[str] = []

    def make() -> dict[str, JsonValue]:
        made.append("once")
        return {"title": "Größe"}

    text = SchemaText(make)
    assert made == []
    assert (text.json, text.json) == ('{"title": "Größe"}',) * 2
    assert made == ["once"]


def test_the_schema_of_a_model_has_its_fields() -> None:
    assert '"required": ["name"]' in SchemaText.of_model(Given, "validation").json


def test_what_is_no_json_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError):
        SchemaText.of({"default": object()})  # pyright: ignore[reportArgumentType]
