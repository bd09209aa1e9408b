"""The examples of docs/python-client.md, run in order against a real stack."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import DOCS
from tests.support.providers.script import by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(120, func_only=True)  # a busy machine may need minutes to start the stack
def test_every_example_of_the_page_runs(
    service: Service, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    provider.script = by_position(says("Hello, I am here."))
    monkeypatch.setenv("OUTLAST_URL", service.api_url)
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {}
    for number, block in enumerate(_BLOCK.findall((DOCS / "python-client.md").read_text()), 1):
        exec(compile(block, f"example {number} of docs/python-client.md", "exec"), page)
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 300
    assert page["call_and_approve"]("deploy", {"item": "shop"}).task.status == "completed"
    page["client"].close()
