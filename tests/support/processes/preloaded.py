"""What worker, API and sandbox are made of, imported once for all processes of a test run: see `module_process`."""

import gc
import importlib
import sys

from outlast.deploy.local.processes.orphans import die_with_parent

for _part in ("outlast.worker", "outlast.api", "outlast.deploy.local.sandbox"):
    importlib.import_module(f"{_part}.__main__")
    # `python -m` is to find its program not yet imported; what the program imports stays.
    del sys.modules[f"{_part}.__main__"]
# The libraries of the providers: a worker imports them when it is given a provider.
importlib.import_module("outlast.worker.providers")
# What is here stays: no forked process needs to look through it for garbage.
gc.collect()
gc.freeze()

die_with_fork_server = die_with_parent()
"""For a forked process: it ends with the server that this module was imported in, and so with the test run."""
