"""The client's logic without I/O: generators that ask for requests and pauses.

`outlast.client.blocking` and `outlast.client.asynchronous` carry the requests out, so that both clients do the same.
"""
