"""Every file that trellis reads or writes."""
