"""Why a test may be skipped where skips are looked at (``CI=true``)."""

import re

# What the machine, not the checkout, is without.
ALLOWED = [
    r"needs a GPU",
    r"\w+ is not installed: No module named '(tiledbsoma|lamindb|scdataset|zarrs)'",  # rivals
    r"a machine with a GPU",
    r"small (disk|file system)",  # mounting one takes root
    r"another user",  # acting as one takes root, and a Python that all may run
    r"nginx is not installed",  # for rates only
]
# The pages of the seeds lie beside the real data, outside of the repository.
ALLOWED_WITHOUT_SHARED = [r"no seed", r"no real data", r"empty parameter set"]


def unexpected_skip(reason: str, has_shared_data: bool) -> str:
    """What is wrong with a skip for `reason`; empty for an allowed one."""
    allowed = ALLOWED if has_shared_data else ALLOWED + ALLOWED_WITHOUT_SHARED
    if any(re.search(pattern, reason) for pattern in allowed):
        return ""
    return (
        f"skipped ({reason.removeprefix('Skipped: ')}), which tests/python/skips.py does not "
        "allow; mend the setup of this machine, or add the reason there"
    )
