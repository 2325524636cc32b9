"""Research tools: benchmarks and sweeps over recipes.

Nothing in the product imports them but the CLI.
"""
