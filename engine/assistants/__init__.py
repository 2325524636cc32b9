"""`engine mcp`: AI assistants search the user's projects by the Model Context Protocol."""
