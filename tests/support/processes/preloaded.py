"""What worker, API and sandbox are made of, imported once for all processes of a test run: see `module_process`."""

import gc
import importlib
import sys

from outlast.activities import apify
from outlast.deploy.local.orphans import die_with_parent
from outlast.workflows.tools import registry

for _part in ("outlast.worker", "outlast.api", "outlast.deploy.local.sandbox"):
    importlib.import_module(f"{_part}.__main__")
    # `python -m` is to find its program not yet imported; what the program imports stays.
    del sys.modules[f"{_part}.__main__"]
# What they load and make later: the libraries of the providers, apify-client, the MCP SDK, the schemas of tools.
for _part in ("outlast.worker.shared_tools", "outlast.api.mcp.streamable_http"):
    importlib.import_module(_part)
apify.load()
for _mode in registry.MODES:
    for _tool in registry.tools_of(_mode):
        _ = _tool.input_schema_json, _tool.output_schema_json
# A worker names the code it runs by a digest of all modules; it is made once.
importlib.import_module("temporalio.worker._worker").load_default_build_id()
# What is here stays: no forked process needs to look through it for garbage.
gc.collect()
gc.freeze()

die_with_fork_server = die_with_parent()
"""For a forked process: it ends with the server that this module was imported in, and so with the test run."""
