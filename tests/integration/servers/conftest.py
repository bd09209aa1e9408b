"""An Outlast with a file of MCP servers: a notebook, with and without rules, and one that does not start; and workers
alone, with a server whose calls have effects.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support.mcp.effects_setting import EffectsSetting
from tests.support.paths import ROOT
from tests.support.stacks.api_server import connect
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.temporal import running_temporal

NOTEBOOK = ROOT / "tests" / "support" / "processes" / "notebook_server.py"
SECRET = "secret-of-the-notebook-0123456789"


@dataclass(frozen=True)
class Notebook:
    """The folder of the notebooks, and the servers file."""

    folder: Path
    file: Path

    def lines(self, server: str = "notes") -> list[str]:
        """What calls have written, which no call reads here."""
        written = self.folder / server / "lines.txt"
        return written.read_text().splitlines() if written.exists() else []

    def write_file(self, **more: Any) -> None:
        entries = {
            "notes": self.entry("notes"),
            "guarded": self.entry("guarded", outlast={"approve": ["add"], "only": ["add", "read"]}),
            "broken": {"command": "/nowhere/at-all"},
        }
        self.file.write_text(json.dumps({"mcpServers": {**entries, **more}}))

    def entry(self, server: str, **more: Any) -> dict[str, Any]:
        folder = self.folder / server
        folder.mkdir(exist_ok=True)
        return {
            "command": sys.executable,
            "args": ["-S", "-P", str(NOTEBOOK), str(folder)],
            "env": {"NOTEBOOK_KEY": SECRET},
            **more,
        }


@pytest.fixture(scope="session")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    folder = tmp_path_factory.mktemp("notebook")
    made = Notebook(folder, folder / "servers.json")
    made.write_file()
    return made


@pytest.fixture(scope="session")
def settings(notebook: Notebook) -> dict[str, str]:
    return {"OUTLAST_MCP_SERVERS_FILE": str(notebook.file)}


service = service_fixture(settings_from="settings")
http = http_fixture()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[EffectsSetting]:
    with running_temporal(tmp_path) as server:
        yield EffectsSetting(tmp_path, server.address)


@pytest.fixture
async def client(setting: EffectsSetting) -> Client:
    return await connect(setting.address)
