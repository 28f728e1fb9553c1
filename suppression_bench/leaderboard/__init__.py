"""The leaderboard: submissions, their checks, ranks and page."""
