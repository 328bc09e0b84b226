"""The command line and the report page; see README.md."""
