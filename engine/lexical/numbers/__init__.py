"""Numbers in a text: amounts, days, telephones, accounts, units, and words before numbers."""
