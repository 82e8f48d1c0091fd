"""Claims of papers as functions, and what runs them: ``python -m papers --help``."""
