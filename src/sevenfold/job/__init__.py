"""The one place where fleet, drive, sources, ledger and audit meet. The command line and Python callers use this."""
