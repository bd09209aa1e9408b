"""Runs the Actor: `python -m src`, with this Actor's folder as the working directory."""

import asyncio

from .main import main

asyncio.run(main())
