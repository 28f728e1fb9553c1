"""The conformance kit: what every loss and every method must fulfil, a user's own too."""
