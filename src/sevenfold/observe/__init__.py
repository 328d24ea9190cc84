"""Reads what a run says of itself and puts it in words; touches nothing that runs."""
