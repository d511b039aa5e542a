# SPDX-License-Identifier: Apache-2.0
"""The time limits of a campaign's programs, which are in the environment."""

import os


def is_quick():
    """Whether this is a rehearsal, whose figures are meaningless."""
    return os.environ.get("BERTH_CAMPAIGN_QUICK") == "1"


def limit_seconds():
    """The time at which the program should end by itself; it is killed somewhat later."""
    return float(os.environ.get("BERTH_CAMPAIGN_LIMIT", "600"))
