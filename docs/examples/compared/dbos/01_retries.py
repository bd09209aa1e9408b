import os
import threading

import httpx
from dbos import DBOS


@DBOS.step(retries_allowed=True, max_attempts=6)
def get_stock(item: str) -> int:
    response = httpx.get(f"{os.environ['SHOP_URL']}/stock/{item}")
    return response.raise_for_status().json()


@DBOS.workflow()
def stock(item: str) -> int:
    return get_stock(item)


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    DBOS.register_queue("calls", worker_concurrency=25)
    threading.Event().wait()
