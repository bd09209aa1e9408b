"""How often this process looks at Temporal for all streams and calls that follow tasks, batches and hand-offs."""

from typing import Final

from outlast.activities.pacing import Looks

DESCRIPTIONS: Final = Looks(per_second=50)
"""Looks at single workflows. With 1,000 streams, each shows a new status message within 20 seconds."""
OUTAGES: Final = Looks(per_second=50)
"""Attempts to read what an outage of Temporal has interrupted."""
LISTS: Final = Looks(per_second=10)
"""Looks through lists, which cost more."""
