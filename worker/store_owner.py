"""Checks that the output store, the database and the ring of sealing keys belong together, before work begins.

With another database, the sweep would delete every output of the right one: their tasks do not exist there. With
another ring, every sealed secret would fail for good. Neither can be undone, so the process does not start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from pydantic import ValidationError
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.failures.exceptions import StoreUnavailable
from outlast.activities.object_store import OutputObjects
from outlast.fingerprints import StoreOwner, fingerprints, owner_key, ring_problem
from outlast.worker.connection import plain_objects, sealer_from
from outlast.worker.settings import Settings

_STORE_SECONDS = 20
_REFUSALS = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED})

log = logging.getLogger("outlast.worker")


class NotTogether(RuntimeError):
    """The store, the database and the ring do not belong together. The message says what to do."""


class StoreOwnership:
    """Reads and writes the object of the store that names its owner."""

    def __init__(self, client: Client, objects: OutputObjects, ring: Mapping[str, bytes]) -> None:
        """`objects` must not encrypt: whoever has the wrong ring has to be able to read the object."""
        self._client = client
        self._objects = objects
        self._ring = ring

    @classmethod
    def of(cls, client: Client, settings: Settings) -> "StoreOwnership":
        """Return the owner of the store and key ring in the settings. Raises `SealError` and `ValueError`."""
        return cls(client, plain_objects(settings), sealer_from(settings).ring)

    async def claim(self) -> None:
        """Name this database and this ring as the owner, unless another one is. Raises `NotTogether`.

        A store that does not answer is left for the next sweep, which checks again before it deletes anything.
        """
        await self._within_time(self.require)

    async def check(self) -> None:
        """Raise `NotTogether` when the store was written with another ring. Nothing is written, Temporal not asked."""

        async def compare() -> None:
            owner = await self._read()
            if owner is not None:
                self._compare_ring(owner)

        await self._within_time(compare)

    async def require(self) -> None:
        """Name the owner, or raise `NotTogether` when there is another one. Raises as `OutputObjects` does."""
        namespace_id = await self._namespace_id()
        owner = await self._read()
        if owner is not None:
            if namespace_id and owner.namespace_id and owner.namespace_id != namespace_id:
                raise NotTogether(self._another_database())
            self._compare_ring(owner)
        own = StoreOwner(
            namespace_id=namespace_id or (owner.namespace_id if owner else ""), keys=fingerprints(self._ring)
        )
        # The order counts, too: the first key is the one that seals.
        if owner is None or own.model_dump_json() != owner.model_dump_json():
            await self._objects.put(self._key, own.model_dump_json().encode())

    @property
    def _key(self) -> str:
        return owner_key(self._client.namespace)

    async def _within_time(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                await work()
        except (StoreUnavailable, OSError, TimeoutError) as error:
            log.warning("The output store does not say whose it is: %s", error or "no answer")

    async def _read(self) -> StoreOwner | None:
        content = await self._objects.get(self._key)
        if content is None:
            return None
        try:
            return StoreOwner.model_validate_json(content)
        except ValidationError as error:
            raise NotTogether(
                f"The object {self._key} of the output store is damaged, so that nobody knows whose outputs are in it. "
                "Restore it from a backup, or remove it when you are sure that the store belongs to this database."
            ) from error

    def _compare_ring(self, owner: StoreOwner) -> None:
        problem = ring_problem(owner.keys, self._ring)
        if problem is not None:
            raise NotTogether(
                f"The sealing keys are not those of the data in the output store: {problem}. Correct OUTLAST_SEAL_KEYS "
                "or OUTLAST_SEAL_KEYS_FILE. If the keys are lost for good, and with them what they sealed, remove the "
                f"object {self._key} from the store."
            )

    def _another_database(self) -> str:
        return (
            f"The output store holds outputs of another database than that of the namespace {self._client.namespace}: "
            "the sweep would delete them. Connect to that database (TEMPORAL_ADDRESS), or name another store "
            "(OUTLAST_STORE_URL). If the database is lost for good, and its outputs may be deleted, remove the object "
            f"{self._key} from the store."
        )

    async def _namespace_id(self) -> str:
        """Temporal's id of the namespace; empty where this credential may not see it."""
        try:
            described = await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            if error.status in _REFUSALS:
                return ""
            raise
        return described.namespace_info.id
