"""Dialogs over the screens."""
