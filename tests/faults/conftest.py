"""Prints the number of allocations that failed."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up the property "points" of all tests."""
    reports = [r for group in terminalreporter.stats.values() for r in group]
    properties = [p for r in reports for p in getattr(r, "user_properties", [])]
    points = sum(value for name, value in properties if name == "points")
    if points:
        terminalreporter.write_line(f"{points:,} allocations failed")
