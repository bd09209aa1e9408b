"""What worker, API and sandbox are made of, imported once for all processes of a test run: see `module_process`."""

import gc
import importlib

from deploy.local.orphans import die_with_parent

for _module in (
    "uvicorn",
    "api.rest.app",
    "api.services",
    "worker.providers",
    "worker.schedules",
    "worker.service",
    "deploy.local.sandbox.app",
    "deploy.local.sandbox.platform",
    "tests.support.protocol_tools",
):
    importlib.import_module(_module)
# What is here stays: no forked process needs to look through it for garbage.
gc.collect()
gc.freeze()

die_with_fork_server = die_with_parent()
"""For a forked process: it ends with the server that this module was imported in, and so with the test run."""
