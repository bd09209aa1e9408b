"""`python -m outlast.api.cli`, a former name of `python -m outlast.cli` in files of MCP clients and Compose files."""

import runpy

if __name__ == "__main__":
    runpy.run_module("outlast.cli", run_name="__main__", alter_sys=True)
