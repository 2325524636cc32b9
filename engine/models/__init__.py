"""Models to choose from: the catalogue, fetching from a hub when asked, packs, and the folder
where they are kept.
"""
