"""`bench check`: have the numbers of a baseline moved? Statistics, baselines, verdicts, and cells bit for bit."""
