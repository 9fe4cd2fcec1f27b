package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// Ten sources that ask for the same, in other words, with ten rules each: one watch, one list, as the API server counts.
func TestHundredRulesMakeOneWatch(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.define("Gadget")
	watches := func() int {
		return k.serverCounts("apiserver_longrunning_requests", `resource="gadgets"`, `verb="WATCH"`)
	}
	var rules strings.Builder
	for s := range 10 {
		selector := []string{"'app,tier=web'", "'tier = web, app'", "'app , tier=web'"}[s%3]
		rules.WriteString(source(fmt.Sprintf("gadgets-%d", s), "resource: informd.test/v1/gadgets, labelSelector: "+selector+
			fmt.Sprintf(", indexes: {byName: object.metadata.name, mine: 'string(%d)'}", s)))
		for r := range 10 {
			rules.WriteString(ruleFor(fmt.Sprintf("rule-%d-%d", s, r), fmt.Sprintf("source: gadgets-%d, handler: log", s)))
		}
	}
	rules.WriteString(toldBy("log", "builtin: log"))
	if n := watches(); n != 0 {
		t.Fatalf("%d watches before informd", n)
	}

	d := runInformd(t, cluster.Shared(t).Kubeconfig(), rules.String())
	d.awaitReady()
	k.create(`{apiVersion: informd.test/v1, kind: Gadget, metadata: {namespace: NS, name: a, labels: {app: shop, tier: web}}}`)
	k.create(`{apiVersion: informd.test/v1, kind: Gadget, metadata: {namespace: NS, name: b, labels: {app: shop, tier: db}}}`)
	events := d.await("an event from each of a hundred rules", func(events []handler.Event) bool { return len(events) >= 100 })
	by := make(map[string]bool)
	for _, ev := range events {
		if by[ev.Rule] = true; ev.Name != "a" || ev.Event != handler.Added {
			t.Errorf("unexpected: %s", brief(ev))
		}
	}
	if len(by) != 100 || len(events) != 100 {
		t.Errorf("%d events from %d rules; want one from each of a hundred", len(events), len(by))
	}
	if n := watches(); n != 1 {
		t.Errorf("%d watches; want one", n)
	}
	// A watch that another selector asks for is one more: that is how it would show.
	other := runInformd(t, cluster.Shared(t).Kubeconfig(), source("all", "resource: informd.test/v1/gadgets")+
		source("web", "resource: informd.test/v1/gadgets, labelSelector: tier=web")+
		ruleFor("all", "source: all, handler: log")+ruleFor("web", "source: web, handler: log")+toldBy("log", "builtin: log"))
	other.awaitReady()
	if n := watches(); n != 3 {
		t.Errorf("%d watches with those of a second daemon; want three", n)
	}
	other.stop()
	d.stop()
}

// serverCounts adds up the series of a metric of the API server's that have all of these labels.
func (k *kube) serverCounts(metric string, labels ...string) int {
	k.t.Helper()
	body, err := k.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(string(body)) {
		missing := func(label string) bool { return !strings.Contains(line, label) }
		if !strings.HasPrefix(line, metric+"{") || slices.ContainsFunc(labels, missing) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			k.t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}
