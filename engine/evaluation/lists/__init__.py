"""Lists of two systems that people compare: what differs in them, which is better, and what that
shows.
"""
