"""Tokens to sparse rows: templates, windows and ready features."""
