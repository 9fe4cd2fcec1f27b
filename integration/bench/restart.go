package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/informd/informd/integration/bench/fleet"
)

// restarts measures starts on a real control plane on which nothing changes.
type restarts struct {
	at                site
	plane             *plane
	stock, cold, warm []started
	fewCold, fewWarm  []started // of a source with few objects
	err               bool
}

// started holds the figures of one start.
type started struct {
	ready      float64 // seconds until ready; for the stock informer, until it has seen all objects
	cpuReady   float64 // seconds until ready
	cpu        float64 // seconds until at rest
	rss        float64 // MiB at rest
	sent       float64 // objects that the API server sent
	deliveries float64
}

func newRestarts(at site, s scale) section {
	return &restarts{at: at, plane: &plane{dir: filepath.Join(at.dir, "p"), configMaps: s.listed()}}
}

func (r *restarts) jobs() []job {
	return []job{{name: "restarts", once: true, do: func(ctx context.Context) error {
		err := r.measure(ctx)
		r.err = r.err || err != nil
		return err
	}}}
}

func (r *restarts) report() (table, []target) {
	rows := [][]string{{
		"", "ready s", "CPU s until then", "until at rest", "RSS MiB at rest",
		"objects sent by the API server", "deliveries",
	}}
	for _, row := range []struct {
		name   string
		starts []started
	}{
		{"stock dynamicinformer, empty handler", r.stock},
		{"informd, cold", r.cold},
		{"informd, warm", r.warm},
	} {
		cells := []string{row.name}
		for _, c := range []struct {
			digits int
			of     func(started) float64
		}{
			{2, readyIn},
			{2, func(s started) float64 { return s.cpuReady }},
			{2, cpuUsed},
			{0, func(s started) float64 { return s.rss }},
			{0, func(s started) float64 { return s.sent }},
			{0, func(s started) float64 { return s.deliveries }},
		} {
			cells = append(cells, spread(row.starts, c.digits, c.of))
		}
		rows = append(rows, cells)
	}
	title := fmt.Sprintf("Starts on a real control plane with %d config maps, "+
		"of which none has changed; once", r.plane.configMaps)
	warm, cold := median(r.warm, readyIn), median(r.cold, readyIn)
	fewWarm, fewCold := least(r.fewWarm), least(r.fewCold)
	told := median(r.warm, func(s started) float64 { return s.sent + s.deliveries })
	missing := r.err || len(r.warm) == 0 || len(r.cold) == 0
	return table{title, rows}, []target{
		{
			what: "time until ready: warm to cold", limit: 1. / 5, value: warm / cold,
			err: missing, from: fmt.Sprintf("s: %.2f to %.2f", warm, cold),
		},
		{
			what: "ms until ready with few objects: warm beyond cold", limit: 50,
			value: 1000 * max(0, fewWarm-fewCold), err: missing || len(r.fewWarm) == 0,
			from: fmt.Sprintf("s, least of %d: %.3f to %.3f", len(r.fewWarm), fewWarm, fewCold),
		},
		{
			what:  "objects sent by the API server, and deliveries, after a warm start",
			limit: 0, value: told, err: missing, from: "with all objects and indexes there",
		},
	}
}

func (r *restarts) charts() []chart {
	return []chart{{
		name:  "start",
		title: fmt.Sprintf("From start to ready, with %d config maps", r.plane.configMaps),
		unit:  "s; less is better",
		bars: []bar{
			barOf("client-go, empty handler", false, r.stock, readyIn),
			barOf("informd, without state", true, r.cold, readyIn),
			barOf("informd, with state from before", true, r.warm, readyIn),
		},
	}}
}

func readyIn(s started) float64 { return s.ready }

// least returns the shortest time until ready. What lasts always, such as a fixed wait, is in it.
func least(starts []started) float64 {
	shortest := math.Inf(1)
	for _, s := range starts {
		shortest = min(shortest, s.ready)
	}
	return shortest
}

func cpuUsed(s started) float64 { return s.cpu }

func (r *restarts) measure(ctx context.Context) (err error) {
	if err := r.plane.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.plane.Stop()) }()
	if err := r.plane.ready(ctx); err != nil {
		return err
	}
	stock, err := r.startStock(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.at.dir, "r")
	if err != nil {
		return err
	}
	cold, err := r.startInformd(ctx, dir, restartRules, r.verify)
	if err != nil {
		return fmt.Errorf("cold: %w", err)
	}
	warm, err := r.startInformd(ctx, dir, restartRules, r.verify)
	if err != nil {
		return fmt.Errorf("warm: %w", err)
	}
	r.stock, r.cold, r.warm = append(r.stock, stock), append(r.cold, cold), append(r.warm, warm)
	for range fewStarts {
		if err := r.startFew(ctx); err != nil {
			return fmt.Errorf("with few objects: %w", err)
		}
	}
	return nil
}

// fewStarts is how many times informd starts with few objects, cold and warm.
const fewStarts = 3

// startFew starts informd on the namespaces, which are few, cold and then warm.
func (r *restarts) startFew(ctx context.Context) error {
	dir, err := os.MkdirTemp(r.at.dir, "f")
	if err != nil {
		return err
	}
	complete := func(context.Context, *daemon, string) error { return nil }
	cold, err := r.startInformd(ctx, dir, fewRules, complete)
	if err != nil {
		return fmt.Errorf("cold: %w", err)
	}
	warm, err := r.startInformd(ctx, dir, fewRules, complete)
	if err != nil {
		return fmt.Errorf("warm: %w", err)
	}
	r.fewCold, r.fewWarm = append(r.fewCold, cold), append(r.fewWarm, warm)
	return nil
}

func (r *restarts) startStock(ctx context.Context) (s started, err error) {
	before, err := r.plane.sent(ctx)
	if err != nil {
		return s, err
	}
	began := time.Now()
	c, err := r.at.start(ctx, "stock", r.plane.Kubeconfig(), "whole", configmaps)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	stock := inside{c}
	if err := stock.begin(); err != nil {
		return s, err
	}
	for {
		now, err := stock.seen()
		if err != nil {
			return s, err
		}
		if now.Objects.N >= r.plane.objects {
			break
		}
		if time.Since(began) > patience {
			return s, fmt.Errorf("saw %v of %d objects in %v", now, r.plane.objects, patience)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return s, err
		}
	}
	return r.begun(ctx, c.pid(), began, before)
}

// begun returns the figures of a process that has just become ready.
func (r *restarts) begun(
	ctx context.Context, pid int, began time.Time, before int) (s started, err error) {
	s.ready = time.Since(began).Seconds()
	ready, err := used(pid)
	if err != nil {
		return s, err
	}
	rested, err := settled(ctx, pid, r.at.rest)
	if err != nil {
		return s, err
	}
	after, err := r.plane.sent(ctx)
	s.cpuReady, s.cpu = ready.cpu.Seconds(), rested.cpu.Seconds()
	s.rss, s.sent = mib(rested.rss), float64(after-before)
	return s, err
}

// restartRules holds a rule that selects any change, and one that delivers the objects of a
// namespace that it has not delivered yet.
const restartRules = `
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: configmaps},
 spec: {resource: v1/configmaps, indexes: {byApp: object.metadata.labels.app}}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: print},
 spec: {builtin: log, config: {path: %q}}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: changed},
 spec: {source: configmaps, events: [added, updated, deleted], handler: print}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: shops},
 spec: {source: configmaps, where: 'object.metadata.namespace == "shop"', handler: print}}
`

const fewRules = `
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: namespaces},
 spec: {resource: v1/namespaces}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: print},
 spec: {builtin: log, config: {path: %q}}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: changed},
 spec: {source: namespaces, events: [added, updated, deleted], handler: print}}
`

// startInformd runs informd with state in dir, and ends it. verify checks it at rest. rules take
// the path that the handler prints to.
func (r *restarts) startInformd(
	ctx context.Context, dir, rules string, verify func(context.Context, *daemon, string) error,
) (s started, err error) {
	printed := filepath.Join(dir, "printed")
	if err := os.WriteFile(printed, nil, 0o600); err != nil {
		return s, err
	}
	before, err := r.plane.sent(ctx)
	if err != nil {
		return s, err
	}
	state := filepath.Join(dir, "state")
	d := &daemon{ended: make(chan struct{})}
	began := time.Now()
	manifests := fmt.Sprintf(rules, printed)
	err = d.start(ctx, r.at, dir, r.plane.Kubeconfig(), manifests, state)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitReady(ctx); err != nil {
		return s, err
	}
	if s, err = r.begun(ctx, d.pid(), began, before); err != nil {
		return s, err
	}
	lines, err := os.ReadFile(printed)
	if err != nil {
		return s, err
	}
	s.deliveries = float64(bytes.Count(lines, []byte("\n")))
	return s, verify(ctx, d, state)
}

// verify checks that all objects are in the cache and in the index.
func (r *restarts) verify(ctx context.Context, d *daemon, state string) error {
	body, err := d.metrics(ctx)
	if err != nil {
		return err
	}
	if n := metric(body, `informd_source_objects{source="configmaps"}`); n != r.plane.objects {
		return fmt.Errorf("%d objects are in the cache, of %d", n, r.plane.objects)
	}
	app := fleet.AppAt(0).Name
	names, err := exec.CommandContext(ctx, r.at.informd, "get", "--state-dir", state,
		"configmaps", "--index", "byApp="+app, "-o", "name").Output()
	if err != nil {
		return fmt.Errorf("informd get: %w", err)
	}
	n, due := bytes.Count(names, []byte("\n")), (r.plane.configMaps+fleet.Apps-1)/fleet.Apps
	if n != due {
		return fmt.Errorf("%d objects are in the index, of %d", n, due)
	}
	return nil
}

// awaitReady waits for /readyz.
func (d *daemon) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if _, isReady := d.readiness(ctx); isReady {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("informd has ended") // stop returns the reason
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("informd is not ready: %w", ctx.Err())
		}
	}
}

// readiness returns what /readyz says, and whether that means ready, with all sources synced: a
// replica is ready without.
func (d *daemon) readiness(ctx context.Context) (body string, isReady bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/readyz", nil)
	if err != nil {
		return "", false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil { // it does not listen yet
		return "", false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	isReady = err == nil && resp.StatusCode == http.StatusOK && !bytes.Contains(b, []byte("[-]"))
	return string(b), isReady
}
