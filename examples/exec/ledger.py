#!/usr/bin/env python3
"""Appends each event to a file, and answers it when it is on disk. One event stands on each line."""
import json
import os
import sys

with open(sys.argv[1], "a") as ledger:
    for line in sys.stdin:
        event = json.loads(line)
        entry = {"id": event["id"], "node": event["name"], "event": event["event"], **event["payload"]}
        ledger.write(json.dumps(entry) + "\n")
        ledger.flush()
        os.fsync(ledger.fileno())
        print(json.dumps({"id": event["id"]}), flush=True)      # done
