"""The settings: what is misspelt, cannot be read, or names something that does not answer.

`outlast up` makes these checks before it starts anything, `outlast doctor` shows each as a row.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from outlast.activities.failures.output_errors import StoreUnavailable
from outlast.activities.object_store.objects import OutputObjects
from outlast.api.settings import ApiSettings
from outlast.cli.checks.check import Check, fail, ok, skip, warn
from outlast.cli.checks.components import Surroundings, check_platform
from outlast.deploy.local.sandbox.actors import broken_folders
from outlast.fingerprints import StoreOwner, owner_key, ring_problem
from outlast.worker.bootstrap import unknown_variables
from outlast.worker.connection import output_objects, plain_objects, sealer_from
from outlast.worker.settings import Settings, WorkerSettings, settings_errors

_SEE_SETTINGS = "The page Settings of the documentation (settings.md) lists them all."
_SEE_VALUES = "The page Settings of the documentation (settings.md) says what it takes."
_STORE_SECONDS = 10
_SLOW_STORE_SECONDS = 1.0
_PROBE = "doctor"
"""The folder of the store in which nothing stays."""


async def check_all(around: Surroundings, actors: Sequence[Path]) -> list[Check]:
    """Every check of the settings in this process's environment."""
    return [*check_variables(), await check_store(around.data_dir), await check_platform(around), check_actors(actors)]


def check_variables() -> list[Check]:
    """All variables exist and have values that make sense; a row for each that does not."""
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
    """The output store takes an object, gives it back and removes it, and how fast.

    It is the one of `OUTLAST_STORE_URL`, or the folder in the data directory, if there is one yet.
    """
    name = "Output store"
    named = os.environ.get("OUTLAST_STORE_URL")
    own = data_dir / "outputs"
    if not named and not _is_there(own):
        return skip(name, "in the data directory")
    place = f"{named} (OUTLAST_STORE_URL)" if named else str(own)
    advice = (
        "Correct OUTLAST_STORE_URL or the store's credentials, or unset it to keep outputs in the data directory."
        if named
        else "It has to be a folder that worker and API can write. Tasks with large outputs wait until it is."
    )
    # What encrypts is not asked for the keys: those of the data directory are the stack's to find.
    chosen = Settings(store_url=named) if named else Settings(store_url=str(own), encryption="off")
    try:
        objects = output_objects(chosen)
        async with asyncio.timeout(_STORE_SECONDS):
            await objects.folders("")
            slowest = await _slowest_access(objects)
    except ValueError as error:
        return fail(name, str(error) if named else f"{own} is no folder that can be written", advice)
    except TimeoutError:
        return fail(name, f"{place} does not answer within {_STORE_SECONDS} s", advice)
    except (StoreUnavailable, OSError) as error:
        return fail(name, f"{place}: {_first_line(error)}", advice)
    took = f"{named or own}, written and read in {slowest * 1000:.0f} ms"
    if slowest > _SLOW_STORE_SECONDS:
        return warn(name, took, "Use a store near worker and API: large answers and arguments wait for it.")
    return ok(name, took if named else "in the data directory")


async def check_store_owner(environment: Mapping[str, str]) -> list[Check]:
    """The store of OUTLAST_STORE_URL was written with the ring of this environment; no row where either is unknown."""
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
        return []  # rows of their own say so
    if problem is not None:
        advice = "Correct the sealing keys of workers and APIs: with others, what was sealed before fails for good."
        return [fail(name, f"the store was written with other keys: {problem}", advice)]
    return [ok(name, "they belong together" if content is not None else "no worker has used the store yet")]


def _is_there(path: Path) -> bool:
    """False for a link to what is not there: the store would create it. A start names such a link."""
    return os.path.exists(path)  # noqa: PTH110  # that of Path raises


async def _slowest_access(objects: OutputObjects) -> float:
    """Write, read and delete a small object; the seconds that the slowest of them took."""
    key, content = f"{_PROBE}/{uuid4().hex}", b"outlast doctor"
    began = time.monotonic()
    await objects.put(key, content)
    written = time.monotonic()
    try:
        if await objects.get(key) != content:
            raise StoreUnavailable("it gives back something else than was written")
        read = time.monotonic()
    finally:
        await objects.delete([key])
    return max(written - began, read - written, time.monotonic() - read)


def check_actors(folders: Sequence[Path]) -> Check:
    """The Actors of the user's own can be read."""
    name = "Actor folders"
    if not folders:
        return skip(name, "OUTLAST_ACTORS names none")
    problems = broken_folders(folders)
    if problems:
        return fail(name, "\n".join(problems), "Repair it, or leave it out of OUTLAST_ACTORS (--actors).")
    return ok(name, ", ".join(map(str, folders)))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
