package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/integration/bench/fleet"
)

const (
	pods        = "pods"
	deployments = "deployments"
	configmaps  = "configmaps"
)

// resources lists the resources that the load serves.
var resources = []struct {
	gvr     schema.GroupVersionResource
	kind    string
	objects func(n int) apistub.Synthetic
}{
	{schema.GroupVersionResource{Version: "v1", Resource: pods}, "Pod",
		func(n int) apistub.Synthetic { return fleet.NewPods(n) }},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: deployments}, "Deployment",
		func(n int) apistub.Synthetic { return fleet.NewDeployments(n) }},
	{schema.GroupVersionResource{Version: "v1", Resource: configmaps}, "ConfigMap",
		func(n int) apistub.Synthetic { return fleet.NewConfigMaps(n) }},
}

// population counts the objects of each resource.
type population [3]int

// mixed returns a population of n objects, of which eight in ten are pods.
func mixed(n int) population { return population{n - n/10 - n/10, n / 10, n / 10} }

func onlyPods(n int) population { return population{n, 0, 0} }

func (p population) total() int { return p[0] + p[1] + p[2] }

// serveLoad is the process that contestants watch. It plays the API server. Its arguments are a
// population.
func serveLoad(ctx context.Context, args []string) error {
	if len(args) != len(resources) {
		return fmt.Errorf("arguments %q", args)
	}
	server := apistub.New(fatal{})
	defer server.Close()
	first := map[string]int64{}
	counts := map[string]int{}
	for r, res := range resources {
		n, err := strconv.Atoi(args[r])
		if err != nil {
			return err
		}
		if n > 0 {
			first[res.gvr.Resource] = server.Synthesize(res.gvr, res.kind, true, res.objects(n))
			counts[res.gvr.Resource] = n
		}
	}
	rest := func() {} // ends what askBusy began
	defer func() { rest() }()
	return answerQuestions(os.Stdin, os.Stdout, func(q question) (a answer, err error) {
		if q.Ask == askReady {
			return answer{URL: server.Config().Host, First: first}, nil
		}
		for _, res := range resources {
			if res.gvr.Resource != q.Resource {
				continue
			}
			switch q.Ask {
			case askUpdate:
				version, took := update(server, res.gvr, q.N, q.Rate)
				return answer{First: map[string]int64{q.Resource: version}, Took: took}, nil
			case askBusy:
				rest()
				rest = busy(ctx, server, res.gvr, q.Rate)
				return answer{}, nil
			case askReplace:
				version := server.Synthesize(res.gvr, res.kind, true, res.objects(counts[q.Resource]))
				return answer{First: map[string]int64{q.Resource: version}}, nil
			}
		}
		return answer{}, fmt.Errorf("cannot %s %q", q.Ask, q.Resource)
	})
}

// busy updates a resource at a rate per second until end is called.
func busy(
	ctx context.Context, server *apistub.Server, gvr schema.GroupVersionResource, rate int,
) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var updating sync.WaitGroup
	updating.Go(func() {
		for rate > 0 && ctx.Err() == nil {
			update(server, gvr, max(1, rate/bursts), rate)
		}
	})
	return func() {
		stop()
		updating.Wait()
	}
}

// update makes n updates, evenly at a rate per second; 0 means at full speed. If it is late, it
// makes the missing ones at once. It returns the first resourceVersion and how long the updates
// took.
func update(
	server *apistub.Server, gvr schema.GroupVersionResource,
	n, rate int) (first int64, took time.Duration) {
	start := time.Now()
	if rate == 0 {
		return server.Update(gvr, n), time.Since(start)
	}
	runtime.LockOSThread() // for nap
	defer runtime.UnlockOSThread()
	for made := 0; made < n; {
		now := min(n, int(time.Since(start).Seconds()*float64(rate))+1)
		if now > made {
			if version := server.Update(gvr, now-made); made == 0 {
				first = version
			}
			made = now
		}
		nap(time.Until(start.Add(time.Duration(made) * time.Second / time.Duration(rate))))
	}
	return first, time.Since(start)
}

// fatal takes the place of the test to which apistub reports errors.
type fatal struct{}

func (fatal) Helper()        {}
func (fatal) Cleanup(func()) {}
func (fatal) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: load: "+format+"\n", args...)
	os.Exit(1)
}

// load is a running load with a ledger of its writes.
type load struct {
	*child
	ledger
	url string
}

func startLoad(ctx context.Context, at site, p population) (*load, error) {
	c, err := at.start(ctx, "load", strconv.Itoa(p[0]), strconv.Itoa(p[1]), strconv.Itoa(p[2]))
	if err != nil {
		return nil, err
	}
	a, err := c.ask(question{Ask: askReady})
	l := &load{child: c, url: a.URL}
	for r, res := range resources {
		if name := res.gvr.Resource; p[r] > 0 {
			one := &entries{resource: name, objects: p[r], first: a.First[name]}
			l.resources = append(l.resources, one)
		}
	}
	return l, err
}

// update makes n updates at full speed, of each resource in proportion.
func (l *load) update(n int) error {
	objects := 0
	for _, e := range l.resources {
		objects += e.objects
	}
	rest := n
	for _, e := range l.resources[1:] {
		share := n * e.objects / objects
		rest -= share
		if _, err := l.updateOne(e, share, 0); err != nil {
			return err
		}
	}
	_, err := l.updateOne(l.resources[0], rest, 0)
	return err
}

// updateOne makes n updates of one resource, waits until they are made, and returns how long that
// took.
func (l *load) updateOne(e *entries, n, rate int) (took time.Duration, err error) {
	if n == 0 {
		return 0, nil
	}
	a, err := l.ask(question{Ask: askUpdate, Resource: e.resource, N: n, Rate: rate})
	if err != nil {
		return 0, err
	}
	e.batches = append(e.batches, batch{n, a.First[e.resource]})
	return a.Took, nil
}
