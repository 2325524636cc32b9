"""The app's side of the engine's processes: requests, runs and their history."""
