"""The app in a window of its own: its process, the pipes to it, and the page that shows it.

The app runs in a child process and speaks packets on standard input and output. The page holds a
terminal and can call nothing but the bridge. There is no port and no address; nothing is fetched.
"""
