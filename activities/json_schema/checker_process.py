"""`python -m outlast.activities.json_schema.checker_process SECONDS`: applies one schema to one value, on its own.

A schema of the outside world can take any time and memory, and the validator cannot be interrupted, so the kernel
limits both: after so many seconds of processor time it ends the process with `SIGPROF`. Standard input: a line with the
size of the schema in bytes, the schema, and the value. Standard output: the violations as JSON.
"""

import json
import os
import resource
import signal
import sys

from outlast.activities.json_schema.engine import find

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
NICENESS = 5
"""What one caller's question takes is left over by what everybody needs: the API, the worker, Temporal."""


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
