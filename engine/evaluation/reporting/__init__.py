"""The report: what is computed for it, drawn and written."""
