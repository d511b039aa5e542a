#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks of a wheel only what lies below the paths named: of PyTorch's, two libraries and the
headers of a few folders are needed of more than a gigabyte.

  unpack.py WHEEL FOLDER PATH...
"""

import sys
import zipfile


def main() -> int:
    wheel, folder, *paths = sys.argv[1:]
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(tuple(paths))]
        archive.extractall(folder, members)
    missing = [path for path in paths if not any(name.startswith(path) for name in members)]
    if missing:
        print(f"{wheel} lacks {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
