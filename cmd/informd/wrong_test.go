package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const exampleFolder = "../../examples/"

// Each of these is an example with one wrong field. | is where the mistake begins.
var wrongFields = []struct{ file, right, wrong, want string }{
	{"rules/certificates.yaml", "fieldSelector: type=", "fieldSelector: |typ=", "there is no field typ in v1/secrets; did you mean type?"},
	{"rules/warning-events.yaml", ",involvedObject.kind=Pod", ",|involvedobject.kind=Pod", "there is no field involvedobject in v1/events; did you mean involvedObject?"},
	{"rules/claims-unbound.yaml", "object.spec.storageClassName", "object.spec.|storageClasName", "there is no field spec.storageClasName in v1/persistentvolumeclaims; did you mean storageClassName?"},
	{"rules/claims-unbound.yaml", `phase == "Pending"`, `phase == |"pending"`, `status.phase of v1/persistentvolumeclaims is never "pending": it is Bound, Lost or Pending; did you mean Pending?`},
	{"rules/configmaps-webhook.yaml", "config: {url:", "config: {|uri:", `handler "configmaps-webhook" refuses its config: unknown field "uri", did you mean "url"?`},
	{"rules/configmaps-webhook.yaml", "delivery: every", "delivery: |all", `spec.delivery must be latest or every, not "all"`},
	{"rules/custom-resource.yaml", "object.spec.database", "object.spec.|databse", "there is no field spec.databse in example.com/v1/backups; did you mean database?"},
	{"rules/deployments-unavailable.yaml", "object.status.unavailableReplicas > 0", "object.status.|unavailable > 0", "there is no field status.unavailable in apps/v1/deployments; did you mean unavailableReplicas?"},
	{"rules/images-not-pulled.yaml", `any(object.status.containerStatuses, .state.`, `any(object.status.containerStatuses, .|status.`, "there is no field status.containerStatuses[].status in v1/pods; did you mean state?"},
	{"rules/images-not-pulled.yaml", "    wait: 30s", "    |wai: 30s", `unknown field "spec.group.wai"; did you mean "wait"?`},
	{"rules/images.yaml", `byIndex("byImage"`, `byIndex(|"byImages"`, `the rule's source has no index "byImages"; did you mean byImage?`},
	{"rules/images.yaml", "byImage: map(object.spec.containers,", "byImage: map(object.spec.|container,", "there is no field spec.container in v1/pods; did you mean containers?"},
	{"rules/jobs-failing.yaml", "    by: object.metadata.ownerReferences[0].uid", "    by: object.metadata.ownerReferences[0].|uuid", "there is no field metadata.ownerReferences[].uuid in batch/v1/jobs; did you mean uid?"},
	{"rules/jobs-failing.yaml", `and .status == "True")` + "\n    and", `and .status == |true)` + "\n    and", `status.conditions[].status of batch/v1/jobs is a string, which never equals true or false: write "True"`},
	{"rules/jobs-failing.yaml", ".lastTransitionTime", ".|lastTransition", "there is no field status.conditions[].lastTransition in batch/v1/jobs; did you mean lastTransitionTime?"},
	{"rules/jobs-failing.yaml", "    times: 3", "    |time: 3", `unknown field "spec.count.time"; did you mean "times"?`},
	{"rules/leases-missed.yaml", `time(object.spec.renewTime) +`, `|object.spec.renewTime +`, "spec.renewTime of coordination.k8s.io/v1/leases is a string, and + takes numbers, times, durations or quantities: write time(object.spec.renewTime)"},
	{"rules/leases-missed.yaml", `duration("2m")`, `duration(|"2 min")`, `"2 min" is no duration: write one such as "10m", "1h30m" or "24h"`},
	{"rules/leases-missed.yaml", `event != "deleted"`, `event != |"delete"`, `event is never "delete": it is added, updated, deleted or synced; did you mean deleted?`},
	{"rules/leases-missed.yaml", "[added, deleted,", "[added, |removed,", `an event is added, updated, deleted or synced, not "removed"`},
	{"rules/metrics.yaml", "phase: object.status.phase", "phase: object.status.|phse", "there is no field status.phse in v1/pods; did you mean phase?"},
	{"rules/metrics.yaml", "value: sum(object.status.containerStatuses, .restartCount)", "value: |object.status.containerStatuses", "status.containerStatuses of v1/pods is a list, and the value of a metric is a number: len(…) is how many it has"},
	{"rules/metrics.yaml", "type: counter", "type: |count", `spec.metrics[1].type must be gauge or counter, not "count"`},
	{"rules/metrics.yaml", "    labels: {event:", "    |label: {event:", `unknown field "spec.metrics[1].label"; did you mean "labels"?`},
	{"rules/namespaces.yaml", "!= old.metadata.labels", "!= old.metadata.|label", "there is no field metadata.label in v1/namespaces; did you mean labels?"},
	{"rules/nodes-not-ready.yaml", `&& .status == "True"`, `&& |.status`, `status.conditions[].status of v1/nodes is a string, not true or false: write .status == "True"`},
	{"rules/nodes-not-ready.yaml", `&& .status ==`, `&& .|state ==`, "there is no field status.conditions[].state in v1/nodes; there are lastHeartbeatTime, lastTransitionTime, message, reason, status, type"},
	{"rules/pods-added.yaml", "resource: v1/pods", "resource: |v1/pod", `spec.resource "v1/pod": use the resource's plural name: write v1/pods`},
	{"rules/pods-pending.yaml", "  for: 5m", "  for: |5", "spec.for is missing its unit: write 5s for seconds, 5m for minutes"},
	{"rules/pods-summary.yaml", `["0 8 * * 1-5"`, `["|0 25 * * 1-5"`, `"0 25 * * 1-5" is no cron expression: "25" is no hour, which goes from 0 to 23`},
	{"rules/pods-summary.yaml", `byPhase", "Running"`, `byPhas", "Running"`, `source pods-by-phase has no index "byPhas"; did you mean byPhase?`},
	{"rules/rollouts-stuck.yaml", "< object.spec.replicas", "< |object.spec.template", "spec.template of apps/v1/deployments is a map, which never compares with a number"},
	{"rules/zones.yaml", `lookup("nodes-in-zones.byName"`, `lookup(|"node-in-zones.byName"`, `unknown source "node-in-zones"; did you mean nodes-in-zones?`},
	{"rules/zones.yaml", `not in ["Succeeded"`, `not in [|"Succeded"`, `status.phase of v1/pods is never "Succeded": it is Failed, Pending, Running, Succeeded or Unknown; did you mean Succeeded?`},
	{"actions/default-network-policy.yaml", "        podSelector: {}", "        |podSelctor: {}", "there is no field spec.podSelctor in networking.k8s.io/v1/networkpolicies; did you mean podSelector?"},
	{"actions/default-network-policy.yaml", "kind: NetworkPolicy", "kind: |NetworkPolcy", `there is no kind NetworkPolcy in networking.k8s.io/v1; did you mean "NetworkPolicy"?`},
	{"actions/jobs-finished.yaml", "- delete: {}", "- |remove: {}", `unknown field "spec.actions[0].remove"; the fields are forEach, if, apply, create, patch, delete, event`},
	{"actions/jobs-nightly.yaml", "now() - time(end)", "now() - |object.metadata.creationTimestamp", "metadata.creationTimestamp of batch/v1/jobs is a string, and - takes numbers, times, durations or quantities: write time(object.metadata.creationTimestamp)"},
	{"actions/nodes-lost.yaml", "unschedulable: true", `unschedulable: "|true"`, "spec.unschedulable of v1/nodes is true or false, not a string: leave the quotes out"},
	{"actions/nodes-lost.yaml", "{unschedulable: true", "{|unscheduleable: true", "there is no field spec.unscheduleable in v1/nodes; did you mean unschedulable?"},
	{"actions/pods-quarantined.yaml", "  labelSelector:", "  |labelselector:", `unknown field "spec.labelselector"; did you mean "labelSelector"?`},
	{"actions/pods-reported.yaml", "annotations: {", "|annotation: {", "there is no field metadata.annotation in v1/pods; did you mean annotations?"},
	{"actions/pods-zones.yaml", "- forEach:", "- |foreach:", `unknown field "spec.actions[0].foreach"; did you mean "forEach"?`},
	{"actions/secrets-everywhere.yaml", "newest-namespace: ${object.metadata.name}", "newest-namespace: |${object.metadata}", `metadata.annotations["example.com/newest-namespace"] of v1/secrets is a string, not a map`},
}

// A wrong field of a real rule file is found without a cluster: it is the only mistake, at its place,
// and the message says what to write.
func TestWrongFields(t *testing.T) {
	t.Parallel()
	for _, test := range wrongFields {
		t.Run(test.wrong, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(exampleFolder, test.file))
			if err != nil {
				t.Fatal(err)
			}
			before, after, ok := strings.Cut(string(text), test.right)
			if !ok {
				t.Fatalf("%s has no %q", test.file, test.right)
			}
			at, rest, isMarked := strings.Cut(test.wrong, "|")
			path := filepath.Join(t.TempDir(), filepath.Base(test.file))
			if err := os.WriteFile(path, []byte(before+at+rest+after), 0o600); err != nil {
				t.Fatal(err)
			}
			found := checkMistakes(t, "-f", path, "--schemas", filepath.Join(exampleFolder, "manifests"))
			if len(found) != 1 || !strings.HasPrefix(found[0].Message, test.want) {
				t.Fatalf("found %+v\nwant %s", found, test.want)
			}
			lines := strings.Split(before+at, "\n")
			line, column := len(lines), len([]rune(lines[len(lines)-1]))+1
			if m := found[0]; isMarked && (m.Line != line || m.Column != column) {
				t.Errorf("it is at %d:%d, want %d:%d", m.Line, m.Column, line, column)
			}
		})
	}
}

type wrong struct {
	Line, Column int
	Message      string
}

// checkMistakes returns what informd check reports.
func checkMistakes(t *testing.T, args ...string) []wrong {
	t.Helper()
	cmd := exec.Command("informd", append([]string{"check", "-o", "json"}, args...)...)
	out, _ := cmd.Output() // it fails if there are mistakes
	var report struct{ Mistakes []wrong }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return report.Mistakes
}
