"""The real JavaScript client against the real server."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.sandbox.server import TOKEN, SandboxServer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("node") is None, reason="npm is not installed"),
]

VERSION = "2"
SCRIPT = Path(__file__).with_name("javascript_client.mjs")


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the client once per test run; npm's own cache makes the next ones fast."""
    folder = tmp_path_factory.mktemp("javascript")
    (folder / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefer-offline", f"apify-client@{VERSION}"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert installed.returncode == 0, installed.stderr
    return folder


def test_the_javascript_client_understands_the_sandbox(sandbox: SandboxServer, node_modules: Path) -> None:
    script = node_modules / SCRIPT.name
    shutil.copy(SCRIPT, script)
    done = subprocess.run(
        ["node", str(script), sandbox.url, TOKEN],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=node_modules,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen == {
        "username": "sandbox",
        "found": ["probe"],
        "required": ["do"],
        "status": "SUCCEEDED",
        "exitCode": 0,
        "startedAtIsDate": True,
        "listed": True,
        "items": [1, 2],
        "total": 3,
        "csvHeader": "row",
        "input": "push",
        "keys": ["INPUT", "note"],
        "note": "text",
        "logged": True,
        "aborted": "ABORTED",
        "refusal": {"statusCode": 400, "type": "invalid-input"},
        "missing": True,
        "queued": "https://example.com/",
        "pushed": [{"from": "javascript"}],
    }
