import threading

from dbos import DBOS


@DBOS.workflow()
def pack(items: list[str]) -> int:
    for done, item in enumerate(items):
        DBOS.set_event("progress", f"{done} of {len(items)}: Packing {item}")
        DBOS.sleep(1)
    return len(items)


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    DBOS.register_queue("calls")
    threading.Event().wait()
