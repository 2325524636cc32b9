"""Requests and answers between a user interface and the engine, and their JSON. See `wire`."""
