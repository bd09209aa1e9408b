"""A real browser."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser

from tests.integration.widgets.host import running_chromium


@pytest.fixture
async def browser() -> AsyncGenerator[Browser]:
    async with running_chromium() as running:
        yield running
