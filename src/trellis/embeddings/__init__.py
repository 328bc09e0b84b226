"""Words as vectors: trained, loaded, searched and measured."""
