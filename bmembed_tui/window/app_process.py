"""The app's own process behind a window: `python -m bmembed_tui.window.app_process [PROJECT]`."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Run the app until its window is closed."""
    os.umask(0o077)
    os.environ["TEXTUAL_DRIVER"] = "bmembed_tui.window_driver:PipeDriver"
    from bmembed_tui.app import BmembedApp

    app = BmembedApp(project=arguments[0] if arguments else None)
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
