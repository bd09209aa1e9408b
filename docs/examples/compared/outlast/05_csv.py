from outlast import Client

with Client() as client:
    batch = client.batches.start_file(
        "stock", "items.csv", key="item", idempotency_key="may"
    )
    client.batches.wait(batch.id)
    client.batches.save(batch.id, "results.csv")
