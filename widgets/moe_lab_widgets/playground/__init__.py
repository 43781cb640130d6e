"""The playground: a page in plain JavaScript that trains the library's own runs in a browser, from one file."""
