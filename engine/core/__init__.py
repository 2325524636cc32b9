"""The ground that every room stands on. Imports nothing heavy."""
