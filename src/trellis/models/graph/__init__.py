"""CRFs on graphs and grids."""
