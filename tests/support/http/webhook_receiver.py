"""`python -m tests.support.http.webhook_receiver PORT FILE`: a receiver that a test may kill and start anew.

What it answered with 200 stands in FILE, a line of JSON each: path, headers and body. It answers when the line is on
the disk, as a receiver should. With a file FILE.silent beside it, it writes requests to FILE.asked and never answers.
With a file FILE.paused, it takes one request, and the others when that file is gone.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Receiver(BaseHTTPRequestHandler):
    file: Path

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        line = json.dumps({"path": self.path, "headers": headers, "raw": raw.decode()})
        if self.file.with_suffix(".silent").exists():
            with self.file.with_suffix(".asked").open("a") as asked:
                asked.write(f"{line}\n")
            threading.Event().wait()
        while self.file.with_suffix(".paused").exists() and self.file.exists():
            time.sleep(0.02)
        with self.file.open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._answer()

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


if __name__ == "__main__":
    Receiver.file = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
