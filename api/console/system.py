"""The server: workers, queues, versions, disks, and what expires, for admins."""

import asyncio
from importlib.metadata import version

from outlast.api.console.framework import Context, Section, View
from outlast.api.console.overview import health_of

section = Section("System", scope="admin")
_CHECK_SECONDS = 3.0


@section.page("system", "system.html", live=("server",))
async def system(view: View) -> Context:
    """Everything that an operator looks at first when something is slow."""
    services = view.services
    operations, (temporal, worker), disk = await asyncio.gather(
        services.operations.read(view.principal),
        services.tasks.readiness(timeout_seconds=_CHECK_SECONDS),
        services.disks.have_room(timeout_seconds=_CHECK_SECONDS),
    )
    ends = {"next key": services.policy.current.next_key_end(), "Temporal certificate": services.certificate_end}
    return {
        "operations": operations,
        "health": health_of(operations),
        "checks": (("Temporal answers", temporal), ("a worker polls", worker), ("disks have room", disk)),
        "disks": services.disks.free(),
        "ends": {name: end for name, end in ends.items() if end is not None},
        "version": version("outlast"),
        "ui_url": services.settings.temporal_ui_url,
    }
