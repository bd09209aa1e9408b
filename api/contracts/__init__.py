"""Bodies of the REST API's requests and responses. They import no server library, so that clients can use them."""
