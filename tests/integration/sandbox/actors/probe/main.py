"""An Actor without the SDK: it starts fast and shows what the platform gives to a process."""

# ruff: noqa: T201 (what it prints is its log)

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any


def call(method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"{os.environ['APIFY_API_BASE_URL']}/v2/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['APIFY_TOKEN']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        content = response.read()
    return json.loads(content) if content else None


def say(message: str) -> None:
    call("PUT", f"actor-runs/{os.environ['ACTOR_RUN_ID']}", {"statusMessage": message})


def main() -> int:
    store = f"key-value-stores/{os.environ['ACTOR_DEFAULT_KEY_VALUE_STORE_ID']}"
    dataset = f"datasets/{os.environ['ACTOR_DEFAULT_DATASET_ID']}"
    given = call("GET", f"{store}/records/{os.environ['ACTOR_INPUT_KEY']}")
    print("probe begins", given["do"], flush=True)
    match given["do"]:
        case "push":
            call("POST", f"{dataset}/items", [{"row": row, "#hidden": True} for row in range(given["rows"])])
        case "environment":
            call("PUT", f"{store}/records/ENVIRONMENT", dict(os.environ))
        case "hog":
            hoard = bytearray(os.urandom(1 << 20)) * 600
            say(f"holding {len(hoard)} bytes")
            time.sleep(given["seconds"])
        case "wait-for-file":
            say("waiting")
            while not Path(given["file"]).exists():
                time.sleep(0.02)
            print("the file is there", flush=True)
            call("POST", f"{dataset}/items", {"found": True})
        case _:
            if given["do"] == "ignore-sigterm":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("sleeping")
            time.sleep(given["seconds"])
    print("probe ends", flush=True)
    return int(given["exitCode"])


sys.exit(main())
