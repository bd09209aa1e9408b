import os
import threading
from datetime import datetime

import httpx
from dbos import DBOS


@DBOS.step(retries_allowed=True, max_attempts=6)
def get_stock(item: str) -> int:
    response = httpx.get(f"{os.environ['SHOP_URL']}/stock/{item}")
    return response.raise_for_status().json()


@DBOS.workflow()
def nightly_stock(scheduled_time: datetime, item: str) -> int:
    return get_stock(item)


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    nightly = {
        "schedule_name": "nightly",
        "workflow_fn": nightly_stock,
        "schedule": "17 2 * * *",
        "context": "ticket",
    }
    DBOS.apply_schedules([nightly])
    threading.Event().wait()
