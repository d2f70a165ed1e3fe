"""The plain ways to answer online, to which sessions are compared."""
