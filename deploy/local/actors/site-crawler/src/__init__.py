"""The site crawler: crawls web pages from start URLs and stores them as text and Markdown."""
