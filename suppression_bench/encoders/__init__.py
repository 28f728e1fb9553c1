"""Every file here is an encoder."""
