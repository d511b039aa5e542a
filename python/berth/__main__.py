# SPDX-License-Identifier: Apache-2.0
"""`python -m berth` is the command `berth`."""

from berth._command import main

main()
