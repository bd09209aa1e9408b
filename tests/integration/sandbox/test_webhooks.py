"""Ad-hoc webhooks arrive as real POSTs, and again after a failure."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from apify_client import ApifyClientAsync

from tests.integration.sandbox.server import SandboxServer
from tests.support.eventually import eventually


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent; answers with the statuses it was given, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append({"headers": dict(self.headers), "body": body})
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_each_event_asked_for_is_delivered(client: ApifyClientAsync, receiver: Receiver) -> None:
    events: list[Any] = ["ACTOR.RUN.CREATED", "ACTOR.RUN.SUCCEEDED", "ACTOR.RUN.FAILED"]
    run = await client.actor("outlast/probe").call(
        run_input={"do": "push"}, webhooks=[{"event_types": events, "request_url": receiver.url}], logger=None
    )
    assert run is not None
    await eventually(lambda: len(receiver.received) == 2)
    created, succeeded = (received["body"] for received in receiver.received)
    assert created["eventType"] == "ACTOR.RUN.CREATED"
    assert succeeded["eventType"] == "ACTOR.RUN.SUCCEEDED"
    assert succeeded["eventData"] == {"actorId": run.act_id, "actorRunId": run.id}
    assert succeeded["resource"]["status"] == "SUCCEEDED"


async def test_a_delivery_goes_on_after_a_restart(own_server: SandboxServer, receiver: Receiver) -> None:
    receiver.statuses = [500] * 4
    await (
        own_server.client()
        .actor("outlast/probe")
        .start(
            run_input={"do": "push"},
            webhooks=[{"event_types": ["ACTOR.RUN.SUCCEEDED"], "request_url": receiver.url}],
        )
    )
    await eventually(lambda: len(receiver.received) == 3)
    own_server.kill()
    own_server.start()
    await eventually(lambda: len(receiver.received) >= 5)
    assert {received["body"]["eventType"] for received in receiver.received} == {"ACTOR.RUN.SUCCEEDED"}


async def test_a_failed_delivery_is_tried_again(client: ApifyClientAsync, receiver: Receiver) -> None:
    receiver.statuses = [500, 503]
    await client.actor("outlast/probe").call(
        run_input={"do": "push", "exitCode": 1},
        webhooks=[
            {
                "event_types": ["ACTOR.RUN.FAILED"],
                "request_url": receiver.url,
                "payload_template": '{"run": {{resource.id}}, "event": {{eventType}}}',
            }
        ],
        logger=None,
    )
    await eventually(lambda: len(receiver.received) == 3)
    assert receiver.received[2]["body"]["event"] == "ACTOR.RUN.FAILED"

    async def succeeded() -> bool:
        dispatches = await client.webhook_dispatches().list(desc=True, limit=1)
        return dispatches.items[0].status == "SUCCEEDED" and len(dispatches.items[0].calls or []) == 3

    await eventually(succeeded)
