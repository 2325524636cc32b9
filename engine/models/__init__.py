"""Models to choose from: the catalogue, fetching from a hub, packs, and installed models."""
