"""The online algorithms of the theory, with their theorems."""
