"""The commands ``trellis ctc decode`` and ``trellis ctc align``."""
