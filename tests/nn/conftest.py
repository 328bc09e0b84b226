"""Neural layers are tested where PyTorch is installed."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
