"""An Outlast whose models are scripted, and which heeds masks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.providers.script import by_position, says
from tests.support.providers.server import ProviderServer, running_provider
from tests.support.stacks.service import Service, running_outlast


@dataclass(frozen=True)
class ModelStack:
    """The scripted provider, and the service that calls it."""

    provider: ProviderServer
    service: Service


@contextmanager
def running_model_stack(folder: Path) -> Iterator[ModelStack]:
    """Run it until the end of the block."""
    with running_provider(by_position(says("Hello."))) as provider:
        settings = {
            "OUTLAST_TOOLS_FROM": "tests.support.tools.protocol_tools,tests.support.tools.archive_tool",
            "OUTLAST_DEFAULT_TOOLS": "dev,restore-tool-output",
            "OUTLAST_TOOL_MASKING": "true",
            **provider.environment,
        }
        with running_outlast(folder, **settings) as service:
            yield ModelStack(provider, service)
