"""Prints what the packages of a folder, and the modules that are named, offer: `... SITE [MODULE ...]`."""

import json
import sys

from outlast.workflows.tools.extensions import load_extensions
from outlast.workflows.tools.registry import tools_of

site, *named = sys.argv[1:]
sys.path.append(site)
load_extensions(named)
load_extensions(named)
sys.stdout.write(
    json.dumps([each.name for mode in ("default", "openai") for each in tools_of(mode) if "wave" in each.name])
)
