"""Start coverage in every Python process that a test starts; its folder is on PYTHONPATH."""

import coverage

coverage.process_startup()
