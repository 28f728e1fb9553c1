"""Every file here is a dataset."""
