"""The command `python -m service.keys NAME`, which makes an API key; see `service/http/api_keys.py`."""

import sys

from service.http.api_keys import main

if __name__ == "__main__":
    sys.exit(main())
