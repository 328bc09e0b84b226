"""The neural tagger and its parts."""
