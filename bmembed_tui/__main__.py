"""`python -m bmembed_tui` is the `bmembed-tui` command."""

from bmembed_tui.launch import main

if __name__ == "__main__":
    main()
