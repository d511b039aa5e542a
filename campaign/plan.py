# SPDX-License-Identifier: Apache-2.0
"""What a campaign tells its programs about time, in the environment."""

import os


def is_quick():
    """Whether only to see that everything runs: figures mean nothing."""
    return os.environ.get("BERTH_CAMPAIGN_QUICK") == "1"


def limit_seconds():
    """When the program ought to have ended by itself; it is killed somewhat later."""
    return float(os.environ.get("BERTH_CAMPAIGN_LIMIT", "600"))
