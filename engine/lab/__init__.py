"""Research tools: benchmarks, studies and sweeps over settings.

No part of the product imports them except the CLI.
"""
