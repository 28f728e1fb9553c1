"""Every file here is a source of natural-looking pictures."""
