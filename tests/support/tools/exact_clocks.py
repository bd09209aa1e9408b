"""Where all clocks are one machine's, the search for a lost run allows nothing for clocks that differ.

The allowance would hide a search that begins too late: it is longer than a test keeps a worker away. Loaded with
OUTLAST_TOOLS_FROM.
"""

from datetime import timedelta

from outlast.activities.runs import starts
from outlast.workflows.tools.framework.tool import Tool

starts._CLOCK_SKEW = timedelta(0)  # pyright: ignore[reportPrivateUsage]

TOOLS: tuple[Tool, ...] = ()
