"""Writes rows to two datasets, and a record beside its input's store."""

import json
import os
import urllib.request

ids = json.loads(os.environ["ACTOR_STORAGES_JSON"])


def send(method: str, path: str, content: object) -> None:
    """A request to the platform."""
    url = f"{os.environ['APIFY_API_BASE_URL']}/v2/{path}"
    headers = {"Authorization": f"Bearer {os.environ['APIFY_TOKEN']}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(content).encode(), headers, method=method)
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()


send("POST", f"datasets/{ids['datasets']['default']}/items", [{"page": 1}, {"page": 2}])
send("POST", f"datasets/{ids['datasets']['errors']}/items", [{"page": 3, "reason": {"code": 404}}])
send("PUT", f"key-value-stores/{ids['keyValueStores']['pictures']}/records/first", {"width": 1})
