"""A handler of MCP that fails unexpectedly: the client learns that it has failed, and nothing of how."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.mcp import server
from outlast.api.settings import ApiSettings
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    settings = ApiSettings(data_dir=tmp_path, seal_keys=SecretStr(SEAL_KEYS), default_actors="")
    async with serving_api(client, settings, whole=True) as serving:
        yield serving


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_the_text_of_an_exception_reaches_no_client(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, revision: str
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise KeyError("password=hunter2hunter2")

    monkeypatch.setattr(server, "tool_entries", fail)
    wire = Wire(api, revision)
    if revision == LEGACY:
        await wire.initialize()
    with pytest.raises(WireError) as failed:
        await wire.request("tools/list")
    assert failed.value.code == -32603
    assert "hunter2" not in str(failed.value)
    assert "hunter2" in caplog.text
