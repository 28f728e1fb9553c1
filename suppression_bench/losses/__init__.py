"""Every file here is a loss."""
