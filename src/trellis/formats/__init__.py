"""Files that trellis reads or writes: bytes on disk <-> arrays and metadata."""
