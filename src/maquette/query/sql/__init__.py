"""SQL: grammar, parser and the statements they make."""
