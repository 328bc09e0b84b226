"""The fixtures of tests/app: commands in an empty folder, with small files and a model."""

from app.conftest import folder, misused, model, prepared, refused, run

__all__ = ["folder", "misused", "model", "prepared", "refused", "run"]
