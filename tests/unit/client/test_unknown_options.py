"""Every method that takes options refuses an unknown one, before anything is sent; type checkers see it, too."""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.client import AsyncClient, Client

NOWHERE = "http://127.0.0.1:9"
PLACES = ("", "batches", "outputs", "saved_calls", "schedules", "sessions", "webhooks")
VALUES = {"path": "items.jsonl", "lines": b"", "items": [{}]}

MISTAKEN = """
from outlast import AsyncClient, Client

client = Client("http://127.0.0.1:8400", data_dir="x")
client.call("t", {}, max_usd=1, timeout_seconds=5)
client.call("t", {}, max_usdd=1)
client.start("t", {}, max_items="many")
client.batches.start("t", [], session_id="s")
client.saved_calls.save("n", "t", reuse="6h")
client.schedules.create("s", crom="* * * * *")


async def main() -> None:
    async with AsyncClient() as other:
        await other.call("t", deadline_second=1)
"""


def methods() -> Iterator[tuple[str, str]]:
    """The methods with options, each by its area of a client and its name."""
    client = Client(NOWHERE)
    for place in PLACES:
        area = getattr(client, place) if place else client
        for name, method in inspect.getmembers(area, inspect.ismethod):
            kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
            if not name.startswith("_") and inspect.Parameter.VAR_KEYWORD in kinds:
                yield place, name


def arguments(method: Any) -> list[Any]:
    """Values of the parameters that have no default."""
    parameters = inspect.signature(method).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return [VALUES.get(name, "t") for name in needed]


def test_there_are_methods_with_options() -> None:
    assert {place for place, _ in methods()} == {"", "batches", "saved_calls", "schedules", "sessions"}
    assert len(list(methods())) >= 14


@pytest.mark.parametrize(("place", "name"), list(methods()))
@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_an_unknown_option_is_a_type_error(kind: type, place: str, name: str) -> None:
    client = kind(NOWHERE)
    method = getattr(getattr(client, place) if place else client, name)
    with pytest.raises(TypeError, match="Unknown option 'max_usdd'"):
        found = method(*arguments(method), max_usdd=1)
        if inspect.isawaitable(found):
            await found


def test_the_nearest_name_is_told_also_that_of_a_parameter() -> None:
    with Client(NOWHERE) as client:
        for wrong, right in {
            "max_usdd": "max_usd",
            "timeout": "timeout_seconds",
            "deadline": "deadline_seconds",
        }.items():
            with pytest.raises(TypeError, match=f"did you mean {right}"):
                client.call("t", {}, **{wrong: 1})  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match="did you mean paused"):
            client.schedules.create("s", pausd=True)  # pyright: ignore[reportCallIssue]


def test_type_checkers_see_wrong_names_and_wrong_types(tmp_path: Path) -> None:
    program = tmp_path / "mistaken_options.py"
    program.write_text(MISTAKEN)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", program.name]
    found = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout)
    assert {one["range"]["start"]["line"] + 1 for one in found["generalDiagnostics"]} == {6, 7, 8, 9, 10, 15}
