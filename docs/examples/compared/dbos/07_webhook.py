import json
import os
import threading
from datetime import UTC, datetime

import httpx
from dbos import DBOS
from standardwebhooks import Webhook

HOOK_URL, SECRET = os.environ["HOOK_URL"], os.environ["HOOK_SECRET"]


@DBOS.step(retries_allowed=True, max_attempts=6)
def get_stock(item: str) -> int:
    response = httpx.get(f"{os.environ['SHOP_URL']}/stock/{item}")
    return response.raise_for_status().json()


@DBOS.step(retries_allowed=True, max_attempts=20, interval_seconds=5)
def notify(event_id: str, count: int) -> None:
    body = json.dumps({"type": "task.completed", "data": count})
    now = datetime.now(UTC)
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(event_id, now, body),
    }
    httpx.post(HOOK_URL, content=body, headers=headers).raise_for_status()


@DBOS.workflow()
def stock(item: str) -> int:
    count = get_stock(item)
    notify(DBOS.workflow_id, count)
    return count


if __name__ == "__main__":
    DBOS(config={"name": "shop"})
    DBOS.launch()
    DBOS.register_queue("calls")
    threading.Event().wait()
