"""External services: the environment names them, so that the stack does not start them."""

from collections.abc import Mapping
from dataclasses import dataclass

from temporalio.envconfig import ClientConfigProfile

from outlast.deploy.local.config import Component
from outlast.deploy.local.errors import StackError

APIFY_API_BASE_URL = "https://api.apify.com"


@dataclass(frozen=True, slots=True)
class Outside:
    """External services; None for a service that the stack has to start."""

    temporal_address: str | None
    temporal_namespace: str
    apify_api_base_url: str | None

    def missing_of(self, components: frozenset[Component]) -> frozenset[Component]:
        """Return the components that the stack has to start because no external service replaces them."""
        existing = {Component.TEMPORAL} if self.temporal_address else set[Component]()
        existing |= {Component.SANDBOX} if self.apify_api_base_url else set()
        return components - existing


def look_outside(environment: Mapping[str, str]) -> Outside:
    """Read Apify's and Temporal's own variables, and Temporal's configuration file.

    Raises `StackError` when the Temporal configuration cannot be read.
    """
    try:
        profile = ClientConfigProfile.load(override_env_vars=dict(environment))
    except RuntimeError as error:
        raise StackError(f"The Temporal client configuration cannot be read: {error}") from error
    base_url = environment.get("APIFY_API_BASE_URL") or APIFY_API_BASE_URL
    has_token = bool(environment.get("APIFY_TOKEN") or environment.get("APIFY_TOKEN_FILE"))
    return Outside(
        temporal_address=profile.address,
        temporal_namespace=profile.namespace or "default",
        apify_api_base_url=base_url if has_token else None,
    )
