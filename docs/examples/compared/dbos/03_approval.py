import threading

from dbos import DBOS


@DBOS.workflow()
def refund(order: str, amount: float) -> str:
    DBOS.set_event("question", f"Refund {amount:.2f} for {order}?")
    if not DBOS.recv("approval", timeout_seconds=604_800):
        raise PermissionError("The refund was not approved.")
    return f"Refunded {amount:.2f} for {order}."


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    DBOS.register_queue("calls")
    threading.Event().wait()
