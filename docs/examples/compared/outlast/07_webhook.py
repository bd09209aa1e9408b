import os

from outlast import Client

webhook = {"url": os.environ["HOOK_URL"], "secret": os.environ["HOOK_SECRET"]}
with Client() as client:
    client.start("stock", {"item": "ticket"}, webhooks=[webhook])
