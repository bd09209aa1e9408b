"""Checks of this machine: Python, data directory, disk, keys, Temporal server, ports, clock; and of limits."""

import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from pydantic import SecretStr

from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import SecretSealer
from outlast.cli.options import Options
from outlast.cli.runner import trying_once
from outlast.cli.show.output import size
from outlast.client import ConnectionFailed, OutlastError
from outlast.contracts.checks import Check, fail, ok, skip, warn
from outlast.deploy.local import ports
from outlast.deploy.local.config import look_outside
from outlast.deploy.local.data_directory import TEMPORAL_DATABASE, broken_parts
from outlast.deploy.local.errors import MissingServerError, StackError
from outlast.deploy.local.state import is_private
from outlast.deploy.local.temporal_server import find_executable
from outlast.paths import free_bytes, written_places

_LIMITS = "Limits"
_SERIES = "outlast_limit_near_ratio"
_NEAR = 0.8
NO_METRICS = "the API shows no metrics here"


async def metrics_of_the_api(options: Options) -> dict[str, list[Sample]] | str:
    """Return the samples of each metric of the API, or the reason if there are none."""
    try:
        async with trying_once(options) as client:
            metrics = await client.metrics()
    except ConnectionFailed:
        return "the API does not answer"
    except OutlastError:
        return NO_METRICS
    return {family.name: family.samples for family in text_string_to_metric_families(metrics)}


async def check_limits(options: Options) -> Check:
    """Check that no caller is near a limit of the policy. Each API process reports its own share."""
    metrics = await metrics_of_the_api(options)
    if isinstance(metrics, str):
        return skip(_LIMITS, metrics)
    if _SERIES not in metrics:
        return skip(_LIMITS, NO_METRICS)
    near = [
        f"{one.labels['caller']} uses {one.value:.0%} of {one.labels['limit']}"
        for one in metrics[_SERIES]
        if one.value >= _NEAR
    ]
    if near:
        advice = "Raise these limits in the policy (docs/policy.md), or ask the caller for the reason."
        return warn(_LIMITS, "; ".join(near), advice)
    return ok(_LIMITS, "no caller is near a limit")


Clock = Callable[[], Awaitable[datetime | None]]
"""Returns the time of a server, in whole seconds; None if the server does not answer, or has no `Date` header."""

_CLOCK = "Clock"
_TIMEOUT_SECONDS = 5
_NOTICEABLE_SECONDS = 5
_TOO_FAR_SECONDS = 120
"""A lost run is searched for from two minutes before its start (docs/decisions/0002)."""
_ADVICE = "Synchronize the clock of the wrong machine with NTP (chrony, systemd-timesyncd)."


async def check_clock(clocks: Mapping[str, Clock]) -> Check:
    """Check that the clock of this machine agrees with those of these servers, by name.

    Other checks report servers that do not answer.
    """
    off = {name: skew for name, clock in clocks.items() if (skew := await _skew(clock)) is not None}
    if not off:
        return skip(_CLOCK, "no server answers to compare it with")
    name, worst = max(off.items(), key=lambda one: abs(one[1]))
    offset = f"{abs(worst):.0f} s {'behind' if worst > 0 else 'ahead of'} that of {name}"
    if abs(worst) > _TOO_FAR_SECONDS:
        return fail(_CLOCK, offset, f"A run whose start got no response can be started twice. {_ADVICE}")
    if abs(worst) > _NOTICEABLE_SECONDS:
        return warn(_CLOCK, offset, f"Deadlines, keys and access tokens expire early or late. {_ADVICE}")
    return ok(_CLOCK, f"as that of {', '.join(off)}")


async def clock_at(url: str) -> datetime | None:
    """Return the time of the HTTP server at `url` (the header `Date`, RFC 9110 section 6.6.1)."""
    answer = await http_response(url, method="HEAD")
    try:
        return parsedate_to_datetime(answer.headers["Date"]) if answer is not None else None
    except (KeyError, ValueError):
        return None


async def http_response(url: str, *, method: str = "GET", token: SecretStr | None = None) -> httpx.Response | None:
    """Return the response to a request, or None if there is none. Proxies are not used on this machine."""
    headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}
    is_local = httpx.URL(url).host in ("127.0.0.1", "::1", "localhost")
    try:
        async with httpx.AsyncClient(trust_env=not is_local, timeout=_TIMEOUT_SECONDS) as http:
            return await http.request(method, url, headers=headers)
    except httpx.HTTPError:
        return None


async def _skew(clock: Clock) -> float | None:
    """Return by how many seconds that clock is ahead of this one; None if it is unknown."""
    before = time.time()
    server_time = await clock()
    between = (before + time.time()) / 2
    # Fractions of a second are left out: half a second on average.
    return None if server_time is None else server_time.timestamp() + 0.5 - between


_OLDEST_PYTHON = (3, 11)
_LITTLE_BYTES = 2_000_000_000
_TOO_LITTLE_BYTES = 200_000_000
_PORTS = {
    "OUTLAST_API_PORT": ports.API,
    "OUTLAST_SANDBOX_PORT": ports.SANDBOX,
    "OUTLAST_WORKER_METRICS_PORT": ports.WORKER_METRICS,
    "OUTLAST_TEMPORAL_PORT": ports.TEMPORAL,
    "OUTLAST_TEMPORAL_UI_PORT": ports.TEMPORAL_UI,
    "OUTLAST_TEMPORAL_HTTP_PORT": ports.TEMPORAL_HTTP,
    "OUTLAST_TEMPORAL_METRICS_PORT": ports.TEMPORAL_METRICS,
}


def check_python() -> Check:
    """Check that the interpreter is new enough."""
    version = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return fail("Python", version, "Outlast needs Python 3.11 or newer: install it with one.")
    return ok("Python", version)


def check_data_dir(data_dir: Path) -> Check:
    """Check that the data directory is writable or can be created."""
    name = "Data directory"
    path = data_dir.absolute()
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir():
        return fail(name, f"{nearest} is not a directory", "Choose another one with --data-dir or OUTLAST_DATA_DIR.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return fail(name, f"{nearest} cannot be written to", f"Get write permission (chmod or chown {nearest}).")
    shown = _relative(data_dir)
    if data_dir.is_dir() and not is_private(data_dir):
        return warn(name, f"{shown} can be read by others", f"chmod 700 {shown}, or use a separate directory.")
    return ok(name, shown if data_dir.exists() else f"{shown}, created by the first `outlast up`")


def check_data(data_dir: Path, environment: Mapping[str, str]) -> Check:
    """Check that the parts of the data directory exist and belong together."""
    name = "Data"
    if not data_dir.is_dir():
        return skip(name, "none yet")
    try:
        broken = broken_parts(data_dir, environment, look_outside(environment))
    except (StackError, OSError) as error:
        return fail(name, str(error), "Get read permission, or correct the named configuration.")
    if broken:
        advice = "`outlast up` does not start on it. Put the parts back, or restore a backup into another directory."
        return fail(name, "\n".join(broken), advice)
    return ok(name, "complete")


def check_disk(data_dir: Path, environment: Mapping[str, str] | None = None) -> Check:
    """Check the disk space for histories, datasets, outputs and the audit log."""
    environment = environment or {}
    audit = environment.get("OUTLAST_AUDIT_FILE")
    written = written_places(data_dir, environment.get("OUTLAST_STORE_URL"), audit if audit != "-" else None)
    places = {place: free_bytes(place) for place in written.values()}
    place, free = min(places.items(), key=lambda one: one[1])
    finding = f"{size(free)} free" + ("" if place in (data_dir, data_dir / "outputs") else f" for {place}")
    if free < _TOO_LITTLE_BYTES:
        return fail("Disk space", finding, f"Free disk space: work stops when the disk of {place} is full.")
    if free < _LITTLE_BYTES:
        return warn("Disk space", finding, "Free disk space before you store large results.")
    return ok("Disk space", finding)


def check_seal_keys(data_dir: Path, environment: Mapping[str, str]) -> Check:
    """Check that there is a key ring for encryption, and that only its owner can read it."""
    name = "Sealing keys"
    if environment.get("OUTLAST_SEAL_KEYS"):
        return _readable_ring(name, environment["OUTLAST_SEAL_KEYS"], "OUTLAST_SEAL_KEYS")
    named = environment.get("OUTLAST_SEAL_KEYS_FILE")
    path = Path(named) if named else data_dir / "seal.keys"
    if path.exists():
        return _ring_file(name, path)
    if named:
        return fail(name, f"{path} (OUTLAST_SEAL_KEYS_FILE) does not exist", "Correct the path, or unset it.")
    if (data_dir / TEMPORAL_DATABASE).exists():
        return fail(name, f"{path} is missing", "Restore it: without it, open tasks cannot decrypt their tokens.")
    return ok(name, "created by the first `outlast up`")


def check_encryption(environment: Mapping[str, str]) -> Check:
    """Check whether histories and outputs are encrypted, and whether the ids of the keys allow it."""
    name, value = "Encryption", environment.get("OUTLAST_ENCRYPTION", "off")
    if value == "off":
        return skip(name, "off")
    try:
        if ring := environment.get("OUTLAST_SEAL_KEYS"):
            SecretSealer.from_text(ring).content_cipher()
    except ValueError as error:
        return fail(name, str(error), "Give the key a shorter id, also in the ring of every other process.")
    return ok(name, f"{value} (OUTLAST_ENCRYPTION)")


def _ring_file(name: str, path: Path) -> Check:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return fail(name, f"{path} cannot be read", "Get read permission, or restore the file.")
    if path.stat().st_mode & 0o077:
        return warn(name, f"{path} can be read by others", f"chmod 600 {path}")
    return _readable_ring(name, text, str(path))


def check_temporal_server(environment: Mapping[str, str]) -> Check:
    """Check that the embedded Temporal server is installed."""
    name = "Temporal binary"
    if environment.get("TEMPORAL_ADDRESS"):
        return skip(name, "TEMPORAL_ADDRESS is set to another server")
    try:
        return ok(name, _relative(find_executable()))
    except MissingServerError as error:
        return fail(name, "not installed", str(error))


def check_ports(environment: Mapping[str, str]) -> list[Check]:
    """Check that the ports of a stack are free."""
    found: list[Check] = []
    taken: list[str] = []
    host = environment.get("OUTLAST_API_HOST") or "127.0.0.1"
    for setting, default in _PORTS.items():
        named = environment.get(setting)
        port = int(named) if named and named.isdecimal() else default
        if port == 0 or ports.is_free(host if setting == "OUTLAST_API_PORT" else "127.0.0.1", port):
            continue
        if named:
            advice = f"`ss -ltnp 'sport = :{port}'` shows the process that uses it. Stop it, or choose another port."
            found.append(fail("Ports", f"{setting}={port} is taken", advice))
        else:
            taken.append(str(port))
    if taken:
        found.append(
            warn("Ports", f"{', '.join(taken)} taken", "Nothing to do: `outlast up` chooses and prints others.")
        )
    return found or [ok("Ports", "all free")]


def _readable_ring(name: str, text: str, origin: str) -> Check:
    try:
        SecretSealer.from_text(text)
    except SealError as error:
        return fail(name, f"{origin}: {error}", "One line per key: KEYID:base64 of 32 random bytes.")
    return ok(name, origin)


def _relative(path: Path) -> str:
    """Return the path relative to this folder; absolute in `/`, where it would look relative."""
    here = Path.cwd()
    return str(path.relative_to(here)) if here != Path(here.anchor) and path.is_relative_to(here) else str(path)
