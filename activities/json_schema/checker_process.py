"""`python -m outlast.activities.json_schema.checker_process SECONDS`: applies one schema to one value within the
processor time and memory that the kernel allows. Standard input: a line with the size of the schema in bytes, the
schema, and the value. Standard output: the violations as JSON.
"""

import json
import os
import resource
import signal
import sys

from outlast.activities.json_schema.engine import find

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
NICENESS = 5
"""Checks of one caller have a lower priority than the API, the worker and Temporal."""


def main() -> int:
    """Answer one question. Returns 0."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
    os.nice(NICENESS)
    source = sys.stdin.buffer
    schema = source.read(int(source.readline())).decode()
    json.dump(find(schema, json.loads(source.read()), linear=False), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
