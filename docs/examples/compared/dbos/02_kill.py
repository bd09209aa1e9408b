import os
import threading

import httpx
from dbos import DBOS


@DBOS.step()
def post(path: str) -> str:
    response = httpx.post(os.environ["SHOP_URL"] + path, timeout=60)
    return response.raise_for_status().json()


@DBOS.workflow()
def order(item: str, card: str) -> str:
    post(f"/reserve/{item}")
    receipt = post(f"/charge/{card}")
    post(f"/ship/{item}")
    return receipt


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    DBOS.register_queue("calls")
    threading.Event().wait()
