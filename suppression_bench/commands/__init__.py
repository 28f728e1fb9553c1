"""Every file here is a command."""
