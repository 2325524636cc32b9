"""The steps of the wizard: one pane each, shown beside the sidebar of the project screen."""
