"""An API on a real socket that needs neither a worker nor a Temporal server: for what HTTP alone decides."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    settings = ApiSettings(data_dir=tmp_path, seal_keys=SecretStr(SEAL_KEYS), default_actors="")
    async with serving_api(client, settings) as serving:
        yield serving
