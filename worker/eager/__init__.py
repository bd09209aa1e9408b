"""Quick calls that are carried out by the process that starts them, see `worker.eager.worker`."""
