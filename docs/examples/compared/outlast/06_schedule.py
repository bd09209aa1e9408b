from outlast import Client

call = {"tool": "stock", "arguments": {"item": "ticket"}}
with Client() as client:
    client.schedules.create("nightly", call=call, cron="17 2 * * *")
