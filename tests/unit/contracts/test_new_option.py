"""An option that is added to the declaration, in one place, exists at every entry point and in the documentation.

A process of its own loads a copy of the declaration with such an option before it loads anything else of the product.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

DECLARATION = """    throw_away: Annotated[
        int | None,
        Option("A throw-away option.", wire="options.throw_away", flag="--throw-away", metavar="N", min=3, max=7),
    ]
"""
PROGRAM = """
import importlib.util, json, sys
from typing import get_args

spec = importlib.util.spec_from_file_location("outlast.contracts.options", sys.argv[1])
options = importlib.util.module_from_spec(spec)
sys.modules["outlast.contracts.options"] = options
spec.loader.exec_module(options)

from typer.main import get_command
from outlast import AsyncClient, Client
from outlast.api.adapters import Adapter
from outlast.api.mcp.protocol.request_meta import META_OPTIONS
from outlast.cli.main import command_line
from outlast.workflows.tools.common.batch_tools import StartBatchArguments
from outlast.workflows.tools.common.call_schedule_tools import ScheduleCallArguments
from tests.support.option_tables import tables


def taken(method, name="options"):
    [kind] = get_args(method.__annotations__[name])
    return "throw_away" in kind.__annotations__


def flags(*path):
    command = get_command(command_line())
    for name in path:
        command = command.get_command(None, name)
    return [flag for parameter in command.params for flag in parameter.opts]


def argument(model):
    schema = model.model_json_schema()
    return schema["$defs"]["Options"]["properties"].get("throw_away")


client = Client("http://127.0.0.1", "a-key")
kinds = ("CallOptions", "BatchOptions", "SavedCallOptions")
print(json.dumps({
    "client": [taken(client.call), taken(client.start), taken(client.map), taken(client.saved_calls.save)],
    "asynchronous client": [taken(AsyncClient.call), taken(AsyncClient.start)],
    "adapter": taken(Adapter.answer, "call_options"),
    "wire": [options.to_wire(getattr(options, kind), {"throw_away": 5}) for kind in kinds],
    "flags": {" ".join(path): flags(*path) for path in (("call",), ("batch", "run"), ("saved", "set"))},
    "MCP meta": "throw_away" in META_OPTIONS.names,
    "start-batch": argument(StartBatchArguments),
    "schedule-call": argument(ScheduleCallArguments),
    "documentation": tables()[0],
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    source = (ROOT / "outlast" / "contracts" / "options.py").read_text()
    head = source.index('"""\n', source.index("class SharedOptions(")) + len('"""\n\n')
    assert source[head:].startswith("    mode: ")
    copy = tmp_path_factory.mktemp("declaration") / "options.py"
    copy.write_text(source[:head] + DECLARATION + source[head:])
    command = [sys.executable, "-c", PROGRAM, str(copy)]
    ran = subprocess.run(command, cwd=Path(ROOT), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_clients_and_adapters_take_it(found: dict[str, Any]) -> None:
    assert found["client"] == [True] * 4
    assert found["asynchronous client"] == [True] * 2
    assert found["adapter"] is True


def test_every_kind_sends_it(found: dict[str, Any]) -> None:
    assert found["wire"] == [{"options": {"throw_away": 5}}] * 3


def test_commands_have_its_flag(found: dict[str, Any]) -> None:
    missing = {command for command, flags in found["flags"].items() if "--throw-away" not in flags}
    assert missing == set()


def test_mcp_has_it_with_its_text_and_bounds(found: dict[str, Any]) -> None:
    assert found["MCP meta"] is True
    for tool in ("start-batch", "schedule-call"):
        assert found[tool]["description"] == "A throw-away option."
        assert found[tool]["anyOf"][0] == {"type": "integer", "minimum": 3, "maximum": 7}


def test_the_table_of_the_documentation_has_it(found: dict[str, Any]) -> None:
    [row] = [line for line in found["documentation"].splitlines() if line.startswith("| `throw_away`")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:3] == ["`options.throw_away`", "`--throw-away N`"]
    assert cells[3:] == ["yes", "yes", "yes", "A throw-away option. From 3 to 7."]
