"""The steps of the wizard: one pane each, shown next to the sidebar of the project screen."""
