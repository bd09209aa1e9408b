"""An Outlast whose models are scripted."""

from dataclasses import dataclass

from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service


@dataclass(frozen=True)
class ModelStack:
    """The scripted provider, and the service that calls it."""

    provider: ProviderServer
    service: Service
