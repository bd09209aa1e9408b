"""`python -m tests.support.endless_writer STORE TASK_ID`: writes an output that never ends, until it is killed.

Prints a line as soon as a part is stored.
"""

import asyncio
import os
import sys
from datetime import timedelta

from activities.output_models import OutputScope
from activities.output_store.store import OutputObjects
from activities.output_store.writer import OutputWriter


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
