"""The disks of the API's machine: whether they have room for what is written to them."""

import asyncio
import logging
from contextlib import suppress

from outlast.api.settings import ApiSettings
from outlast.disk_space import free_bytes, shortage, written_places

log = logging.getLogger("outlast.api")


class Disks:
    """Watches the folders that the settings name."""

    def __init__(self, settings: ApiSettings) -> None:
        """Nothing is read before it is needed."""
        self._places = written_places(settings.data_dir, settings.store_url, settings.audit_file)
        self._reserve_bytes = settings.disk_reserve_mbytes * 1_000_000
        self._is_short = False

    async def have_room(self, *, timeout_seconds: float) -> bool:
        """Whether each has more free space than the reserve. A disk that does not answer in time has none."""
        try:
            async with asyncio.timeout(timeout_seconds):
                found = await asyncio.to_thread(shortage, self._places, self._reserve_bytes)
        except (OSError, TimeoutError) as error:
            found = f"A disk cannot be looked at: {error or 'it does not answer'}."
        if found is not None and not self._is_short:
            log.error("Not ready: %s", found)
        elif found is None and self._is_short:
            log.info("Ready again: the disks have room")
        self._is_short = found is not None
        return not self._is_short

    def free(self) -> dict[str, int]:
        """Free bytes of each place that exists, by what it holds."""
        found: dict[str, int] = {}
        for name, place in self._places.items():
            with suppress(OSError):
                if place.exists():
                    found[name] = free_bytes(place)
        return found
