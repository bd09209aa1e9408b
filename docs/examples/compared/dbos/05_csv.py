import csv

from dbos import DBOSClient

client = DBOSClient(system_database_url="sqlite:///shop.sqlite")
with open("items.csv") as file:
    items = [row["item"] for row in csv.DictReader(file)]
call = {"workflow_name": "stock", "queue_name": "calls"}
calls = [client.enqueue(call | {"workflow_id": f"may-{item}"}, item) for item in items]
with open("results.csv", "w") as file:
    rows = ((item, call.get_result()) for item, call in zip(items, calls, strict=True))
    csv.writer(file).writerows([("item", "result"), *rows])
client.destroy()
