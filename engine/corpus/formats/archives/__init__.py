"""Archives: every file in them is read as a file of its own, within the same limits.

Nothing is ever unpacked to the disk.
"""
