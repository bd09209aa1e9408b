"""`python -m outlast.cli.fork_server DATA_DIR`: a data directory's fork server, as long as its stack runs."""

import sys
import time
from pathlib import Path

from outlast.cli.fork_server.protocol import own_code

_AFTER_SECONDS = 1.0
"""The process that has started this one serves its client first, on the same processors."""

if __name__ == "__main__":
    _code = own_code()  # before anything else is loaded: what is installed meanwhile is not this code
    time.sleep(_AFTER_SECONDS)

    from outlast.cli.fork_server.serving import serve

    sys.exit(serve(Path(sys.argv[1]), _code))
