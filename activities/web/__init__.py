"""Pages of the web: documentation and page structures, fetched behind one guard."""
