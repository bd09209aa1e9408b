"""The parts of the sandbox, connected, on one data directory."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path
from typing import TextIO, cast

from starlette.requests import Request

from outlast.deploy.local.sandbox.accounts import Limits, Settlements, User, Users, payment_of, token_from_file
from outlast.deploy.local.sandbox.actors import load_catalogue
from outlast.deploy.local.sandbox.database import Database, Page
from outlast.deploy.local.sandbox.execution import Surroundings
from outlast.deploy.local.sandbox.faults import Counters, Faults
from outlast.deploy.local.sandbox.formats import not_found
from outlast.deploy.local.sandbox.request_queues import RequestQueues
from outlast.deploy.local.sandbox.runs import Run, Runs
from outlast.deploy.local.sandbox.saved_tasks import SavedTasks, Schedules
from outlast.deploy.local.sandbox.settings import SHIPPED_ACTORS, Settings
from outlast.deploy.local.sandbox.storages import DatasetFiles, Datasets, KeyValueStores, Kind, SignedLinks, Storages
from outlast.deploy.local.sandbox.supervisor import Supervisor
from outlast.deploy.local.sandbox.webhooks import Webhooks


class Platform:
    """The parts of the sandbox, as the routes use them."""

    def __init__(self, settings: Settings) -> None:
        """Open the data directory and connect the parts. Starts nothing.

        Raises `DataDirectoryInUseError`, `OSError` and `sqlite3.DatabaseError`.
        """
        data_dir = settings.data_dir
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        _lock(data_dir / "lock")
        self.settings = settings
        self.database = database = Database(data_dir / "sandbox.sqlite")
        self.settlements = Settlements(database)
        self.users = Users(database, payment_of)
        self.users.add(settings.username, settings.token or token_from_file(data_dir / "token"))
        shipped = (SHIPPED_ACTORS,) if settings.ships_actors and SHIPPED_ACTORS.is_dir() else ()
        self.catalogue = load_catalogue((*shipped, *settings.actor_dirs))
        self.storages = Storages(database)
        self.datasets = Datasets(database, DatasetFiles(data_dir / "datasets"))
        self.stores = KeyValueStores(database, self.storages, data_dir / "key-value-stores")
        self.queues = RequestQueues(database)
        self.links = SignedLinks()
        self.runs = Runs(database, settings.compute_unit_usd)
        self.webhooks = Webhooks(settings, database, self.runs)
        self.supervisor = Supervisor(
            settings,
            self.runs,
            self.catalogue,
            self.users,
            lambda report, aborting: Surroundings(self.datasets, self.stores, report, aborting),
            self.webhooks.emit,
        )
        self.limits = Limits(settings.memory_limit_mbytes, settings.max_concurrent_runs)
        self.faults = Faults()
        self.counters = Counters(database, self.runs)
        self.tasks = SavedTasks(database)
        self.schedules = Schedules(database)
        self.schedules_changed = asyncio.Event()

    def begin(self) -> None:
        """Start the background work; needs a running event loop."""
        self.webhooks.begin()
        self.supervisor.begin()

    async def end(self) -> None:
        """Stop the background work and close the files."""
        await self.supervisor.end()
        await self.webhooks.end()
        self.database.close()

    def run_of(self, request: Request, user: User) -> Run:
        """Return the run that a path names: by ID, or as the last run of an Actor or task. Raises `ApiError` 404."""
        run_id = request.path_params.get("run_id")
        if run_id is not None:
            return self.runs.get(run_id, user.id)
        filters = {"user_id": user.id, **self.scope_of(request, user)}
        statuses = [status for status in request.query_params.get("status", "").split(",") if status]
        found, _ = self.runs.list(filters, statuses, Page(0, 1, desc=True))
        if not found:
            raise not_found("Actor run")
        return found[0]

    def scope_of(self, request: Request, user: User) -> dict[str, str]:
        """Return the filter for a list of runs below an Actor or a task."""
        if "task_id" in request.path_params:
            task = self.tasks.find(request.path_params["task_id"], user.id, user.username)
            return {"actor_id": task.actor_id, "task_id": task.id}
        if "actor_id" in request.path_params:
            return {"actor_id": self.catalogue.find(request.path_params["actor_id"], user).id}
        return {}

    def storage_id_of(self, request: Request, user: User, kind: Kind) -> str:
        """Return the storage that a path names: by ID, by `username~name`, or as the default storage of a run."""
        storage_id = request.path_params.get("storage_id")
        if storage_id is None:
            run = self.run_of(request, user)
            defaults = {"dataset": run.dataset_id, "key-value-store": run.store_id, "request-queue": run.queue_id}
            storage_id = defaults[kind]
        return cast("str", self.storages.get(kind, storage_id, user.id, user.username)["id"])


class DataDirectoryInUseError(Exception):
    """Another sandbox is using the data directory."""


def _lock(path: Path) -> None:
    """Lock the data directory until the process ends, because two sandboxes would supervise the same runs."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataDirectoryInUseError(f"another sandbox is using {path.parent}") from error
    _locks.append(file)


_locks: list[TextIO] = []
