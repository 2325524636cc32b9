"""Archives: every file in them is read for itself, within the same limits.

Nothing is ever unpacked to the disk.
"""
