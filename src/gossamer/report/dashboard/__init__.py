"""The dashboard: a page in the browser that shows a crawl while it runs, and lets a person steer it.

`server.py` is its HTTP side and says what can be asked of it, `questions.py` has `explain` answer in a process of its
own, `audience.py` knows who looks on when the crawl ends, `addresses.py` is the file that tells others where the
dashboard is. `page/` holds what the browser gets.
"""
