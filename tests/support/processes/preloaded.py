"""What worker, API and sandbox are made of, imported once for all processes of a test run: see `module_process`."""

import gc
import importlib

from outlast.deploy.local.processes.orphans import die_with_parent

for _module in (
    "uvicorn",
    "outlast.api.app",
    "outlast.api.services",
    "outlast.worker.providers",
    "outlast.worker.schedules",
    "outlast.worker.service",
    "outlast.deploy.local.sandbox.http.app",
    "outlast.deploy.local.sandbox.platform",
    "tests.support.tools.protocol_tools",
):
    importlib.import_module(_module)
# What is here stays: no forked process needs to look through it for garbage.
gc.collect()
gc.freeze()

die_with_fork_server = die_with_parent()
"""For a forked process: it ends with the server that this module was imported in, and so with the test run."""
