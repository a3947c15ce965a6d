"""Fetching: what may be requested, and the request. So far the pure half of robots.txt: statuses, rules, verdicts."""
