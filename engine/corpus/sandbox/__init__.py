"""Reading files in child processes that can do little harm (`limits` says what holds where):
whatever a file makes its reader do, only a child process is lost by it.
"""
