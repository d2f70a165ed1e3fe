"""The theory's own online algorithms, with their theorems."""
