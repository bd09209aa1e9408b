"""The real JavaScript client against the real server."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.integration.sandbox.server import TOKEN, SandboxServer
from tests.support.processes.installed import node, npm_package

VERSION = "2.25.0"
SCRIPT = Path(__file__).with_name("javascript_client.mjs")


def test_the_javascript_client_understands_the_sandbox(sandbox: SandboxServer) -> None:
    folder = npm_package("apify-client", VERSION).parents[1]
    script = folder / SCRIPT.name
    shutil.copy(SCRIPT, script)
    done = subprocess.run(
        [str(node()), str(script), sandbox.url, TOKEN],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=folder,
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
