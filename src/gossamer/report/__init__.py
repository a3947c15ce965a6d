"""What a crawl says of itself while it runs and when it ends: log files, the status line, the summary, resources."""
