package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/integration/ledger"
)

// crashing is a daemon whose handler records what an author writes, while the test kills things.
type crashing struct {
	t        *testing.T
	random   *rand.Rand
	cluster  *cluster.Cluster
	author   *author
	recorded *recorded
	rules    []ledger.Rule
	probes   []*subject // one of each kind, which nobody else writes
	manifest string
	state    string
	daemon   *harness.Daemon
	run      int

	trial  ledger.Trial
	ready  time.Time // when this run of the daemon was; zero if it is not known to be
	sure   time.Time // up to when the disk is sure to know everything
	lost   time.Time // since when changes may be lost with the server's history; zero: they are not
	caught time.Time // when the daemon was seen to have caught up after that
}

func startCrashing(t *testing.T, seed uint64, plan crashPlan) *crashing {
	t.Helper()
	controlPlane := cluster.New(t)
	k := harness.NewKube(t, controlPlane)
	k.Define("Widget")
	kinds := []kind{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"},
		{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount"},
		{schema.GroupVersionResource{Group: "informd.test", Version: "v1", Resource: "widgets"}, "Widget"},
	}
	c := &crashing{
		t: t, random: rand.New(rand.NewPCG(seed, 1<<32)), cluster: controlPlane, state: harness.ShortDir(t),
		author: newAuthor(t, k.Objects, k.Ns, kinds, plan.objects), recorded: newRecorded(filepath.Join(t.TempDir(), "ledger")),
	}
	c.trial.Caught = make(map[int]time.Time)
	c.author.pace = plan.pace
	c.author.begin(seed)
	c.writeRules(kinds)
	c.start()
	c.awaitReady()
	c.trial.Ready = time.Now()
	// From now on the daemon knows everything, on disk as well.
	c.daemon.AwaitWritten()
	c.sure = time.Now()
	return c
}

// writeRules makes four rules for each kind: every and latest, with and without where.
func (c *crashing) writeRules(kinds []kind) {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(harness.Handler("record", fmt.Sprintf("command: [%q, %s, %q], concurrency: 16, env: [%s], retry: {backoff: 50ms, maxBackoff: 1s}",
		self, recorderCommand, c.recorded.path, runVariable)))
	for _, k := range kinds {
		c.probes = append(c.probes, newSubject(k, "probe"))
		text.WriteString(harness.Source(k.Resource, fmt.Sprintf("resource: %s, namespaces: [%s]", k.manifest(), c.author.ns)))
		for _, delivery := range []string{"every", "latest"} {
			for _, team := range []string{"", "red"} {
				rule := ledger.Rule{Name: strings.TrimSuffix(k.Resource+"-"+delivery+"-"+team, "-"), Resource: k.Resource, Every: delivery == "every", Team: team}
				spec := "source: " + k.Resource + ", handler: record, delivery: " + delivery
				if team != "" {
					spec += `, where: object.metadata.labels.team == "` + team + `"`
				}
				text.WriteString(harness.Rule(rule.Name, spec))
				c.rules = append(c.rules, rule)
			}
		}
	}
	c.manifest = text.String()
}

// start starts the daemon where the last one ended.
func (c *crashing) start() {
	c.t.Helper()
	c.run++
	c.daemon = harness.RunInformdIn(c.t, []string{runVariable + "=" + strconv.Itoa(c.run)}, c.cluster.Kubeconfig(), c.manifest,
		"--state-dir", c.state, "--log-level", "info")
	c.ready = time.Time{}
}

func (c *crashing) awaitReady() {
	c.t.Helper()
	if c.ready.IsZero() {
		c.daemon.AwaitReady()
		c.ready = time.Now()
		c.trial.Caught[c.run] = c.ready
	}
}
