"""Every file here is a method."""
