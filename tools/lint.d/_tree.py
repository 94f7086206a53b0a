# SPDX-License-Identifier: Apache-2.0
"""What the lints share: the files of the tree, C text without comments, and how to complain."""

import os
import re
import subprocess
import sys

SKIPPED = 77  # exit status of a lint that cannot run here


def git(*arguments):
    """The lines that a git command prints, or None when it fails."""
    # CI may own the checkout as another user.
    done = subprocess.run(["git", "-c", "safe.directory=*", *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def files(pattern=".*"):
    """Paths, sorted, of the files that git tracks or would, whose whole path matches `pattern`."""
    found = git("ls-files", "-co", "--exclude-standard")
    if found is not None:
        found = [path for path in found if os.path.isfile(path)]
    else:  # an unpacked archive
        found = [os.path.relpath(os.path.join(folder, name)) for folder, _, names in os.walk(".")
                 for name in names if not re.match(r"\./(\.git|build)", folder)]
    return sorted(path for path in set(found) if re.fullmatch(pattern, path))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def bare_c(text):
    """C text with comments and the insides of literals blanked; lines keep their numbers."""
    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[0]
        return re.sub(r"[^\n]", " ", token)
    return re.sub(r'//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  blank, text, flags=re.S)


failed = False


def complain(path, line, rule):
    global failed
    failed = True
    print(f"{path}:{line}: {rule}")


def finish():
    sys.exit(1 if failed else 0)
