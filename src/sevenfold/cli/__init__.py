"""One verb per file: parse, call one room, print."""
