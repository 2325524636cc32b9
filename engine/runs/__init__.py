"""Runs: the stages in order, each in a process of its own."""
