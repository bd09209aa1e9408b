import time

from outlast import SyncToolContext, tool


@tool
def pack(items: list[str], ctx: SyncToolContext) -> int:
    """Pack items."""
    for done, item in enumerate(items):
        ctx.progress(done, total=len(items), message=f"Packing {item}")
        time.sleep(1)
    return len(items)
