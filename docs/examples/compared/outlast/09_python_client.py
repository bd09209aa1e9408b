from outlast import Client

with Client() as client:
    task = client.start("stock", {"item": "ticket"}, idempotency_key="4711")
    print(task.id, client.wait(task.id).structured)
