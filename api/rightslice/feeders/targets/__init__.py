"""The embedded feeder: what to scrape, when, and what becomes of the pages."""
