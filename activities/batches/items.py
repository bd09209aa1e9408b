"""`ItemList`: the items of a batch, and the list of those that are carried out."""

import json
from collections.abc import AsyncGenerator
from typing import cast

from cachetools import LRUCache
from pydantic import ValidationError

from outlast.activities.batches.contracts import BatchPlace, BatchState, ItemLine
from outlast.activities.batches.line_blocks import LineReader, LinesDamaged
from outlast.activities.outputs.store.object_store import OutputObjects

_CACHED = 512


class ItemList:
    """Reads items by their index. Raises as `LineReader` does."""

    def __init__(self, objects: OutputObjects, place: BatchPlace, state: BatchState, *, namespace: str) -> None:
        """Read the items of `place`, and the list that `state` names."""
        self._place = place
        self._count = state.plan.count if state.plan is not None else place.items.count
        self._items = LineReader(objects, place.items, namespace=namespace, batch_id=place.batch_id)
        self._plan = (
            LineReader(objects, state.plan, namespace=namespace, batch_id=place.batch_id) if state.plan else None
        )
        self._cache: LRUCache[int, ItemLine] = LRUCache(_CACHED)

    async def item(self, index: int) -> ItemLine:
        """One item."""
        found = self._cache.get(index)
        if found is None:
            try:
                found = ItemLine.model_validate_json(await self._items.line(index))
            except ValidationError as error:
                raise LinesDamaged("An item of a batch cannot be read.") from error
            self._cache[index] = found
        return found

    async def planned(self, position: int) -> tuple[int, int]:
        """At this position of the list: the item's index, and how many attempts there were before."""
        if self._plan is None:
            return position, 0
        index, attempts = cast(list[int], json.loads(await self._plan.line(position)))
        return index, attempts

    async def planned_from(self, position: int) -> AsyncGenerator[list[int]]:
        """The list from a position on: index and attempts of each item."""
        for at in range(position, self._count):
            yield list(await self.planned(at))
