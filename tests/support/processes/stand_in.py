"""A stand-in for one of the stack's processes: `python stand_in.py PORT [--fail-while FILE] [--ignore-sigterm]`.

PORT is a number, or the name of the environment variable that holds it. It answers 200 to everything, and to
/environment with its environment variables.
"""

import argparse
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(dict(os.environ)).encode() if self.path == "/environment" else b"ok"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("--fail-while", type=Path, help="end at once while this file exists")
    parser.add_argument("--ignore-sigterm", action="store_true")
    options = parser.parse_args()
    if options.fail_while and options.fail_while.exists():
        sys.exit("stand-in: I was told to fail")
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    port = int(options.port) if options.port.isdigit() else int(os.environ[options.port])
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if ready_file := os.environ.get("OUTLAST_READY_FILE"):
        Path(ready_file).write_text(json.dumps({"pid": os.getpid(), "version": "stand-in"}))
    server.serve_forever()


if __name__ == "__main__":
    main()
