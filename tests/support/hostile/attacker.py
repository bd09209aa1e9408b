"""`python -m tests.support.hostile.attacker URL KEY [WEAPON ...]`: a process that attacks until standard input ends.

Without the names of weapons it uses all.
What it is answered goes to standard output, as JSON: so many answers of each status, by weapon.
"""

import asyncio
import json
import sys

from tests.support.hostile.weapons import WEAPONS, under_attack


async def main() -> None:
    url, key, *names = sys.argv[1:]
    async with under_attack(url, key, {name: WEAPONS[name] for name in names or WEAPONS}) as attack:
        await asyncio.to_thread(sys.stdin.read)
    told: dict[str, dict[str, int]] = {}
    for (weapon, status), count in sorted(attack.answers.items()):
        told.setdefault(weapon, {})[status] = count
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
