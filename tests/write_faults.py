"""Errors of the operating system at the n-th call that a writer of files makes."""

from __future__ import annotations

import os
from typing import Any

import pytest

CALLS = ("chmod", "write", "fsync", "replace")


class Fault:
    """In a ``with`` block, the call with this number (from 1) raises OSError instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
        self._patches, self._number, self._code = monkeypatch.context(), number, code
        self._count = 0
        self.raised = ""
        """The name of the call that raised, or ""."""
        self.is_replaced = False
        """Whether the call came after the new file had its final name."""

    def __enter__(self) -> Fault:
        patch = self._patches.__enter__()
        for name in CALLS:
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))
        return self

    def __exit__(self, *error: Any) -> None:
        self._patches.__exit__(*error)

    def _wrap(self, name: str, call: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            self._count += 1
            if self._count == self._number:
                self.raised = name
                raise OSError(self._code, os.strerror(self._code))
            result = call(*arguments)
            self.is_replaced = name == "replace"
            return result

        return counted
