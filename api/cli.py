"""`python -m outlast.api.cli`, a former name of `python -m outlast.cli`.

Files of MCP clients that `outlast mcp install` wrote, and Compose files, may contain it.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("outlast.cli", run_name="__main__", alter_sys=True)
