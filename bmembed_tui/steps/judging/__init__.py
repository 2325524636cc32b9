"""Judging: which list is better, and which passages are right."""
