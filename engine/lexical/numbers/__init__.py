"""Numbers in a text: amounts, days, telephone and account numbers, units, and numbered words."""
