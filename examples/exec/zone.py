#!/usr/bin/env python3
"""Answers an event about a Pod with a label for it: the zone of its node."""
import json
import subprocess
import sys

event = json.load(sys.stdin)
node = event["payload"]["node"]
got = subprocess.run(["informd", "get", "nodes", node, "-o", "json"], capture_output=True, text=True)
if got.returncode != 0:
    # A node that is not in the cache yet is there soon.
    print(got.stderr, file=sys.stderr)
    answer = {"result": "retry", "retryAfter": "1s", "reason": "its node cannot be read"}
else:
    zone = json.loads(got.stdout)["metadata"].get("labels", {}).get("topology.kubernetes.io/zone")
    # Without a resource, an action is about the object of the event. A node without a zone may get
    # one: the rule's resync asks again.
    label = {"verb": "patch", "patch": {"metadata": {"labels": {"example.com/zone": zone}}}}
    answer = {"actions": [label] if zone else []}
print(json.dumps(answer))
