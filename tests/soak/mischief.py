"""What a soak does to the stack meanwhile: `kill -9`, processes that freeze, and a platform that errs."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.stacks.chaos_stack import ChaosStack, Part

_FAULTS: list[dict[str, Any]] = [
    {"action": "status", "status": 429},
    {"action": "status", "status": 500},
    {"action": "status", "status": 503},
    {"action": "drop_before"},
    {"action": "drop_after"},
    {"action": "delay_after", "seconds": 2},
    {"action": "truncate"},
]
_PLACES = (("POST", "/runs$"), ("GET", "/v2/actor-runs/[^/]+$"), ("GET", "/items$"), ("POST", "/abort$"))


@dataclass
class Mischief:
    """One thing after the other, chosen by the seed; each part is back before the next one."""

    stack: ChaosStack
    sandbox: Part
    seed: int
    pause_seconds: float = 4
    done: Counter[str] = field(default_factory=Counter[str])

    async def go_on(self, end: float) -> None:
        """Until the time `end` (monotonic) is over."""
        moments = random.Random(f"{self.seed}-mischief")
        while time.monotonic() < end:
            await asyncio.sleep(moments.uniform(0.5, 2 * self.pause_seconds))
            await moments.choices([self._kill, self._freeze, self._err], [5, 1, 4])[0](moments)

    async def _kill(self, moments: random.Random) -> None:
        parts = [self.stack.worker, self.stack.api, self.stack.temporal, self.sandbox]
        part = moments.choices(parts, [5, 3, 1, 1])[0]
        part.kill()
        await asyncio.sleep(moments.uniform(0, 2))
        part.start()
        await part.ready()
        self.done[f"kill -9 of {part.name}"] += 1
        await self.stack.bring_up()

    async def _freeze(self, moments: random.Random) -> None:
        part = moments.choice([self.stack.worker, self.stack.api])
        part.suspend()
        await asyncio.sleep(moments.uniform(0.5, 5))
        part.resume()
        self.done[f"{part.name} frozen"] += 1

    async def _err(self, moments: random.Random) -> None:
        method, path = moments.choice(_PLACES)
        fault = moments.choice(_FAULTS)
        with suppress(httpx.HTTPError):
            await asyncio.to_thread(
                self.stack.sandbox.order_fault, **fault, method=method, path=path, times=moments.randint(1, 3)
            )
            self.done["faults of the platform"] += 1
