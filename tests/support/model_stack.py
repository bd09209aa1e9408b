"""An Outlast whose models are scripted, with two doors: one stores large outputs, the other sends them as they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.ports import any_free
from tests.support.processes import started_module
from tests.support.provider_script import by_position, says
from tests.support.provider_server import ProviderServer, running_provider
from tests.support.sandbox import running_sandbox
from tests.support.service import Service, running_service, settings_environment
from tests.support.temporal import running_temporal


@dataclass(frozen=True)
class ModelStack:
    """Masks are heeded at both doors; they share the worker, the Temporal server and the store."""

    provider: ProviderServer
    service: Service
    plain_url: str
    """Address of the API with compression off."""

    def url(self, *, compression: bool) -> str:
        """The door with compression on or off."""
        return self.service.api_url if compression else self.plain_url


@contextmanager
def running_model_stack(folder: Path) -> Iterator[ModelStack]:
    """Run it until the end of the block."""
    port = any_free("127.0.0.1")
    with (
        running_provider(by_position(says("Hello."))) as provider,
        running_temporal(folder) as temporal,
        running_sandbox(folder) as sandbox,
    ):
        extra = {
            "OUTLAST_TOOLS_FROM": "tests.support.protocol_tools,tests.support.archive_tool",
            "OUTLAST_DEFAULT_TOOLS": "dev,restore-tool-output",
            "OUTLAST_TOOL_MASKING": "true",
            **provider.environment,
        }
        second = settings_environment(
            temporal.address,
            sandbox,
            OUTLAST_DATA_DIR=str(folder),
            OUTLAST_API_PORT=str(port),
            OUTLAST_COMPRESSION="false",
            **extra,
        )
        url = f"http://127.0.0.1:{port}"
        log = folder / "plain-api.log"
        with (
            running_service(folder, temporal.address, sandbox, **extra) as service,
            started_module("api", ready_url=f"{url}/readyz", log=log, environment=second) as door,
        ):
            door.await_answer()
            yield ModelStack(provider, service, url)
