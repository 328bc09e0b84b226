"""From loss and gradient to weights."""
