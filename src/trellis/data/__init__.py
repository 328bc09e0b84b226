"""Text in: readers of annotated corpora, and the tags in them."""
