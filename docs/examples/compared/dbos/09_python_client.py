from dbos import DBOSClient

client = DBOSClient(system_database_url="sqlite:///shop.sqlite")
options = {"workflow_name": "stock", "queue_name": "calls", "workflow_id": "4711"}
handle = client.enqueue(options, "ticket")
print(handle.workflow_id, handle.get_result())
client.destroy()
