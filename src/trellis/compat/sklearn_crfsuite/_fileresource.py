"""The file of a model: named by the user, or temporary. Pickles contain a temporary file."""

import contextlib
import os
import tempfile
from typing import Any

from trellis.data.atomic import replacing

__all__ = ["FileResource"]

_DATA = "__FILE_RESOURCE_DATA__"  # the key in pickles of sklearn-crfsuite


class FileResource:
    """A file that the user names, or a temporary file that is deleted with this object."""

    def __init__(
        self,
        filename: str | None = None,
        keep_tempfiles: bool = False,
        suffix: str = "",
        prefix: str = "",
    ) -> None:
        self.name = filename
        self.auto = filename is None
        self.keep_tempfiles = keep_tempfiles
        self.suffix, self.prefix = suffix, prefix

    def ensure_name(self) -> None:
        """Create a temporary file if there is no file yet."""
        if self.name is None:
            handle, self.name = tempfile.mkstemp(self.suffix, self.prefix)
            os.close(handle)

    def cleanup(self) -> None:
        """Delete the temporary file."""
        if self.auto and not self.keep_tempfiles and self.name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name)
            self.name = None

    def refresh(self) -> None:
        """Replace the temporary file by a new one, for a new model."""
        self.cleanup()
        self.ensure_name()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit of Python, modules may be unloaded already
            self.cleanup()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.auto and self.name is not None:
            with contextlib.suppress(OSError), open(self.name, "rb") as file:
                state[_DATA] = file.read()
            state["name"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        data = state.pop(_DATA, None)
        self.__dict__.update(state)
        if data is not None:
            self.ensure_name()
            assert self.name is not None
            with replacing(self.name) as file:
                file.write(data)
