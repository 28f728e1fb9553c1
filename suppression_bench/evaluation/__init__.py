"""What the harness measures on a frozen encoder."""
