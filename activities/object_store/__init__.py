"""Object storage: a store of named objects, encrypted on request, and the large objects of calls in it."""
