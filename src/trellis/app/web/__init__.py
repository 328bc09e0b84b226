"""The server of ``trellis serve``: the page of the inspector and the JSON interface."""
