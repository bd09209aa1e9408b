"""Checks of the Temporal namespace: search attributes, retention, queues, workers, certificate."""

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.api.health import check_queues, check_retention, check_search_attributes, check_stuck
from outlast.api.settings import ApiSettings
from outlast.cli.checks.components import Surroundings
from outlast.contracts.checks import Check, fail, ok, skip, warn
from outlast.deploy.local.config import look_outside
from outlast.deploy.local.errors import StackError
from outlast.worker.connection import connect_plainly

_TIMEOUT_SECONDS = 10
_EXPIRES_SOON = timedelta(days=14)
_CERTIFICATE = "TEMPORAL_TLS_CLIENT_CERT_PATH"
_NAMESPACE = "Temporal namespace"


async def check_namespace(around: Surroundings) -> list[Check]:
    """Make the checks that need a connection to Temporal; return one check if there is none."""
    embedded = around.state is not None and around.state.addresses.temporal_http_url is not None
    try:
        environment = _environment(around)
        if environment is None:
            return [skip(_NAMESPACE, "no TEMPORAL_ADDRESS, and no stack runs")]
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            client = await connect_plainly(environment)
            return [
                ok(_NAMESPACE, f"{client.namespace} at {client.service_client.config.target_host}"),
                await check_search_attributes(client),
                await _check_retention(client, embedded=embedded),
                *await check_queues(client),
                await check_stuck(client),
            ]
    except TimeoutError:
        return [fail(_NAMESPACE, f"no answer within {_TIMEOUT_SECONDS} s", _CONNECTION_ADVICE)]
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return [fail(_NAMESPACE, error.message, "Create it: `outlast admin setup`, or correct TEMPORAL_NAMESPACE.")]
        return [fail(_NAMESPACE, f"{error.status.name}: {error.message}", _CONNECTION_ADVICE)]
    except (RuntimeError, ValueError, OSError, StackError) as error:
        return [fail(_NAMESPACE, str(error).partition("\n")[0], _CONNECTION_ADVICE)]


async def _check_retention(client: Client, *, embedded: bool) -> Check:
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip("Retention", "the settings must be valid first")
    return await check_retention(client, settings, embedded=embedded)


_CONNECTION_ADVICE = "Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, and the API key or certificate (docs/cluster.md)."


def check_certificate(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """Check that the client certificate for Temporal does not expire soon."""
    name, path = "Certificate", environment.get(_CERTIFICATE)
    if not path:
        return skip(name, f"no {_CERTIFICATE}")
    try:
        ends = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return fail(name, f"{path} cannot be read: {error}", f"{_CERTIFICATE} takes a certificate in PEM form.")
    left = ends - (now or datetime.now(UTC))
    advice = "Issue a new one, upload its CA if that is new too, and restart workers and APIs (docs/cluster.md)."
    if left <= timedelta(0):
        return fail(name, f"{path} expired on {ends:%F}", advice)
    if left < _EXPIRES_SOON:
        return warn(name, f"{path} expires on {ends:%F}", advice)
    return ok(name, f"{path}, until {ends:%F}")


def _environment(around: Surroundings) -> dict[str, str] | None:
    """Return the variables for a connection: those of the running stack, or of the user; None if there are none."""
    addresses = around.state.addresses if around.state else None
    if addresses is not None and addresses.temporal_address and addresses.temporal_http_url:
        plain = {name: value for name, value in around.environment.items() if not name.startswith("TEMPORAL_")}
        named = {"TEMPORAL_ADDRESS": addresses.temporal_address, "TEMPORAL_NAMESPACE": addresses.temporal_namespace}
        return {**plain, **named, "TEMPORAL_CONFIG_FILE": os.devnull}
    if look_outside(around.environment).temporal_address is None:
        return None
    return dict(around.environment)
