"""Fetching: what may be requested, and the request itself. So far the pure half of robots.txt: rules, verdicts, statuses."""
