"""`python -m tests.support.processes.endless_writer STORE TASK_ID`: writes an output without end, until it is killed.

Prints a line as soon as a part is stored.
"""

import asyncio
import os
import sys
from datetime import timedelta

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.writer import OutputWriter


async def main(store: str, task_id: str) -> None:
    scope = OutputScope(caller_id="local", tool_call_id=task_id, task_id=task_id)
    async with OutputWriter(OutputObjects.open(store), scope, what="content", kind="binary") as writer:
        said = False
        while True:
            await writer.write(os.urandom(1024 * 1024))
            if writer.position.raw_size and not said:
                said = True
                sys.stdout.write("stored\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), timedelta(minutes=1).total_seconds()))
