"""Numbers in a text: of accounts and telephones, and with units."""
