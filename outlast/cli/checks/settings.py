"""Checks of the settings: misspelt names, invalid values, and stores and folders that cannot be used.

`outlast up` makes these checks before it starts anything; `outlast doctor` shows each as a row.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from outlast.activities.failures.exceptions import StoreUnavailable
from outlast.activities.mcp_servers.config import ServersFileError, read_servers
from outlast.activities.mcp_servers.pins import LockFileError, lock_path, read_lock
from outlast.activities.object_store import OutputObjects
from outlast.api.settings import ApiSettings
from outlast.contracts.checks import Check, fail, ok, skip, warn
from outlast.deploy.local.sandbox.actors import broken_folders
from outlast.fingerprints import StoreOwner, owner_key, ring_problem
from outlast.worker.bootstrap import unknown_variables
from outlast.worker.connection import output_objects, plain_objects, sealer_from
from outlast.worker.settings import Settings, WorkerSettings, settings_errors

_SEE_SETTINGS = "docs/settings.md lists all settings."
_SEE_VALUES = "docs/settings.md lists its values."
_STORE_SECONDS = 10
_SLOW_STORE_SECONDS = 1.0
_PROBE = "doctor"
"""Folder of the store for objects that are deleted at once."""


def check_variables() -> list[Check]:
    """Check that all variables exist and have valid values; return a check for each that does not."""
    bad = [fail("Settings", line, _SEE_SETTINGS) for line in unknown_variables(os.environ)]
    lines: list[str] = []
    kinds: tuple[type[BaseSettings], ...] = (ApiSettings, WorkerSettings)
    for kind in kinds:
        try:
            kind()
        except ValidationError as error:
            lines += settings_errors(error).split("; ")
    bad += [fail("Settings", line, _SEE_VALUES) for line in dict.fromkeys(lines)]
    return bad or [ok("Settings", "every OUTLAST_ variable is known")]


async def check_store(data_dir: Path) -> Check:
    """Write, read and delete an object in the output store, and measure the time.

    The store is that of `OUTLAST_STORE_URL`, or the folder in the data directory if it exists.
    """
    name = "Output store"
    named = os.environ.get("OUTLAST_STORE_URL")
    own = data_dir / "outputs"
    # A broken link does not exist here: the store would create its target. `Path.exists` can raise.
    if not named and not os.path.exists(own):  # noqa: ASYNC240, PTH110
        return skip(name, "in the data directory")
    place = f"{named} (OUTLAST_STORE_URL)" if named else str(own)
    advice = (
        "Correct OUTLAST_STORE_URL or the store's credentials, or unset it to keep outputs in the data directory."
        if named
        else "Worker and API must be able to write to this folder. Tasks with large outputs wait until then."
    )
    # No encryption for the folder in the data directory: only the stack finds the keys there.
    chosen = Settings(store_url=named) if named else Settings(store_url=str(own), encryption="off")
    try:
        objects = output_objects(chosen)
        async with asyncio.timeout(_STORE_SECONDS):
            await objects.folders("")
            slowest = await _slowest_access(objects)
    except ValueError as error:
        return fail(name, str(error) if named else f"{own} is not a folder that can be written", advice)
    except TimeoutError:
        return fail(name, f"{place} does not answer within {_STORE_SECONDS} s", advice)
    except (StoreUnavailable, OSError) as error:
        reason = str(error).partition("\n")[0]
        return fail(name, f"{place}: {reason}", advice)
    took = f"{named or own}, written and read in {slowest * 1000:.0f} ms"
    if slowest > _SLOW_STORE_SECONDS:
        return warn(name, took, "Use a store closer to worker and API: large answers and arguments wait for it.")
    return ok(name, took if named else "in the data directory")


async def check_store_owner(environment: Mapping[str, str]) -> list[Check]:
    """Check that the store of OUTLAST_STORE_URL was written with the key ring of this environment.

    Return no check if either is unknown.
    """
    name = "Store and keys"
    if not environment.get("OUTLAST_STORE_URL"):
        return []
    key = owner_key(environment.get("TEMPORAL_NAMESPACE") or "default")
    try:
        settings = Settings()
        ring, objects = sealer_from(settings).ring, plain_objects(settings)
        async with asyncio.timeout(_STORE_SECONDS):
            content = await objects.get(key)
        problem = ring_problem(StoreOwner.model_validate_json(content).keys, ring) if content is not None else None
    except ValidationError:
        return [fail(name, f"the object {key} of the store is damaged", "Restore it; no worker starts without it.")]
    except (ValueError, StoreUnavailable, OSError, TimeoutError):
        return []  # reported by other checks
    if problem is not None:
        advice = "Correct the encryption keys of workers and APIs: other keys cannot decrypt earlier data."
        return [fail(name, f"the store was written with other keys: {problem}", advice)]
    return [ok(name, "they belong together" if content is not None else "no worker has used the store yet")]


async def _slowest_access(objects: OutputObjects) -> float:
    """Write, read and delete a small object; return the seconds that the slowest step took."""
    key, content = f"{_PROBE}/{uuid4().hex}", b"outlast doctor"
    began = time.monotonic()
    await objects.put(key, content)
    written = time.monotonic()
    try:
        if await objects.get(key) != content:
            raise StoreUnavailable("it returns other content than was written")
        read = time.monotonic()
    finally:
        await objects.delete([key])
    return max(written - began, read - written, time.monotonic() - read)


def check_actors(folders: Sequence[Path]) -> Check:
    """Check that the Actors of the user can be read."""
    name = "Actor folders"
    if not folders:
        return skip(name, "OUTLAST_ACTORS names none")
    problems = broken_folders(folders)
    if problems:
        return fail(name, "\n".join(problems), "Repair it, or leave it out of OUTLAST_ACTORS (--actors).")
    return ok(name, ", ".join(map(str, folders)))


def check_servers_file(path: Path | None, environment: Mapping[str, str]) -> Check:
    """Check that the file of MCP servers can be read, and that the variables are set that it refers to."""
    name = "MCP servers"
    if path is None:
        return skip(name, "OUTLAST_MCP_SERVERS_FILE names no file")
    try:
        servers = read_servers(path, environment)
    except ServersFileError as error:
        advice = "Correct the file of OUTLAST_MCP_SERVERS_FILE (--mcp-servers); docs/mcp-servers.md has its format."
        return fail(name, "\n".join(f"{path}: {problem}" for problem in error.problems), advice)
    lock = lock_path(path)
    try:
        pins = read_lock(lock)
    except LockFileError as error:
        advice = "Restore it from its last commit: no worker or API starts with it, and running ones keep the previous."
        return fail(name, str(error), advice)
    problems = [server.problem for server in servers.values() if server.problem is not None]
    if problems:
        return warn(name, "\n".join(problems), "Set the variables for the process that runs `outlast`.")
    pinned = sum(server in pins for server in servers) if pins is not None else 0
    return ok(
        name, f"{len(servers)} in {path}, {pinned} of them pinned" if pins is not None else f"{len(servers)} in {path}"
    )
