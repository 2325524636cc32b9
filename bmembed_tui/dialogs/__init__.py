"""Whole screens: the first one, a project's, and the dialogs over them."""
