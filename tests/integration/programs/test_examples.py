"""The programs in docs/program-examples.md return the values that are given there."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import result_of, started
from tests.support.paths import ROOT
from tests.support.stacks.fixtures import http_fixture, service_fixture

PAGE = Path(ROOT, "docs", "program-examples.md").read_text()
EXAMPLE = re.compile(r"## ([^\n]*)\n\n<!-- (?:answers: ([^\n]*) )?value: ([^\n]*) -->\n```python\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE)

service = service_fixture(scope="module", tools=["docs.examples.shop_tools"])
api = http_fixture()


def test_the_page_has_ten_programs() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 10


@pytest.mark.parametrize(("answers", "value", "code"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES])
async def test_an_example_returns_its_value(api: httpx.AsyncClient, answers: str, value: str, code: str) -> None:
    task_id = await started(api, {"tool": "run-program", "arguments": {"code": code}})
    for answer in json.loads(answers or "[]"):
        await taken(api, await asks(api, task_id), answer)
    result: dict[str, Any] = (await result_of(api, task_id))["result"]
    assert (result.get("structured") or result["content"][0]["text"]) == json.loads(value)
