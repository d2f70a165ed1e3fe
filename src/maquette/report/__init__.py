"""The report: what was published, at what price, and how sure it is, as one page."""
