"""Writes rows as a crawler does that cuts texts after a number of characters: in the middle of a surrogate pair.

An input `{"rows": "<text>"}` has the rows as text, for those that no request can carry as JSON.
"""

import json
import os
import urllib.request

HALF = b"\\ud83d"


def request(method: str, path: str, body: bytes | None = None) -> bytes:
    """Call the platform's API; the body goes as it is."""
    url = f"{os.environ['APIFY_API_BASE_URL']}/v2/{path}"
    headers = {"Authorization": f"Bearer {os.environ['APIFY_TOKEN']}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as response:
        return response.read()


def main() -> None:
    """Read the input, and write it as rows."""
    store, dataset = os.environ["ACTOR_DEFAULT_KEY_VALUE_STORE_ID"], os.environ["ACTOR_DEFAULT_DATASET_ID"]
    given = request("GET", f"key-value-stores/{store}/records/INPUT")
    text = json.loads(given).get("rows")
    rows = text.encode() if isinstance(text, str) else given.replace(b"@half@", HALF)
    request("POST", f"datasets/{dataset}/items", rows)
    request("PUT", f"key-value-stores/{store}/records/OUTPUT", rows)


if __name__ == "__main__":
    main()
