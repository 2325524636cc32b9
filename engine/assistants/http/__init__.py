"""`engine serve --http`: programs of this machine search projects, and use their encoders, by
HTTP on a loopback address.
"""
