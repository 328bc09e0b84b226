"""``python -m trellis`` is the ``trellis`` command."""

from trellis.app.cli.main import main

if __name__ == "__main__":
    main()
