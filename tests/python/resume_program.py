"""What test_resume.py kills: appends each batch and the state after it to a log, one JSON line
each, and waits after the twentieth."""

import itertools
import json
import os
import sys
import time

import cellfeed as cf


def make_loader(path, seed=5):
    return cf.Loader(cf.open(path), cf.BlockShuffling(4), 8, fetch_factor=3, seed=seed)


def main(path, log):
    loader = make_loader(path)
    with open(log, "a") as file:
        for batch in itertools.islice(loader, 20):
            line = {"rows": batch.index.tolist(), "state": loader.state_dict()}
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
            time.sleep(0.01)  # the step
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
