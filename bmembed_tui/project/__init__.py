"""A project's screen: sidebar, run line, runs and the panes of the steps."""
