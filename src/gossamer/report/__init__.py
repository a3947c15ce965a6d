"""What a crawl says of itself: log files, counters and metrics, the terminal, the dashboard, diagnoses, the summary."""
